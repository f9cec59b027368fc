"""The picture of clustered sharing: heads with their members around them, coloured by what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np

from unskew.arrays import Array
from unskew.data.federation import shown_name
from unskew.report.assembly import Picture, layered
from unskew.report.theme import MUTED, ON_LIGHT, PALETTE, RULE, WIDTH, inline

STEP = 11.0  # pixels between neighbours
GOLDEN = np.pi * (3 - np.sqrt(5))  # turns by it never line up, so points fill a disc evenly
COLOURS = (*PALETTE, "#882255", "#44AA99", "#999933")
MIXED, NOTHING = "several classes", "nothing"


@dataclass(frozen=True)
class Cluster:
    """A head and who got samples of it; without a head: those that nobody shares with."""

    head: int | None
    members: Sequence[int]
    samples: int = 0


def cluster_picture(
    clusters: Sequence[Cluster],
    counts: Array,
    labels: Sequence[str],
    title: str,
    subtitle: str = "",
    *,
    names: Sequence[str] | None = None,
) -> Picture:
    """Stars of clusters, the largest first; a node's colour is the class of more than half of its samples."""
    order = sorted(clusters, key=lambda c: (c.head is None, -len(c.members)))
    nodes: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    x = y = deepest = 0.0
    for cluster in order:
        radius = STEP * (np.sqrt(max(4, len(cluster.members)) + 1.5) + 1.2)
        if x and x + 2 * radius > WIDTH:
            x, y, deepest = 0.0, y + deepest, 0.0
        middle = (x + radius, y + radius)
        placed = _around(len(cluster.members), middle, cluster.head is not None)
        for member, (px, py) in zip(cluster.members, placed, strict=True):
            nodes.append(_node(member, px, py, counts, labels, "member", names))
            if cluster.head is not None:
                links.append({"x": middle[0], "y": middle[1], "x2": px, "y2": py})
        if cluster.head is not None:
            nodes.append(_node(cluster.head, *middle, counts, labels, "head", names))
            said = f"{cluster.samples} sample{'s' * (cluster.samples != 1)} to {len(cluster.members)}"
        else:
            said = "no sharing"
        notes.append({"x": middle[0], "y": y + 2 * radius, "text": said})
        x += 2 * radius + 8
        deepest = max(deepest, 2 * radius + 20)
    height = y + deepest
    return layered(
        *_layers(nodes, links, notes, labels, height),
        width=WIDTH,
        height=height,
        title=alt.TitleParams(title, subtitle=subtitle),
        usermeta={"fixed": True},  # a map: narrower it would be another
    )


def _layers(
    nodes: list[dict[str, Any]],
    links: list[dict[str, Any]],
    notes: list[dict[str, Any]],
    labels: Sequence[str],
    height: float,
) -> list[alt.Chart]:
    across = alt.X("x:Q", scale=alt.Scale(domain=[0, WIDTH], nice=False), axis=None)
    down = alt.Y("y:Q", scale=alt.Scale(domain=[height, 0], nice=False), axis=None)
    held = {node["holds"] for node in nodes}
    named = [name for name in labels if name in held]
    colours = [COLOURS[list(labels).index(name) % len(COLOURS)] for name in named]
    rest = [(MIXED, ON_LIGHT), (NOTHING, RULE)]
    domain = named + [name for name, _ in rest if name in held]
    colours += [colour for name, colour in rest if name in held]
    colour = alt.Color(
        "holds:N",
        scale=alt.Scale(domain=domain, range=colours),
        legend=alt.Legend(title="holds mostly", symbolType="circle", orient="bottom", columns=12),
    )
    base = alt.Chart(inline(nodes)).encode(
        x=across,
        y=down,
        color=colour,
        tooltip=[alt.Tooltip("client:N"), alt.Tooltip("holds:N"), alt.Tooltip("samples:Q")],
    )
    return [
        alt.Chart(inline(links))
        .mark_rule(color=MUTED, opacity=0.45)
        .encode(x=across, y=down, x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q")),
        base.transform_filter("datum.role == 'member'").mark_circle(size=46, opacity=1),
        base.transform_filter("datum.role == 'head'").mark_circle(
            size=190, opacity=1, stroke="white", strokeWidth=1.5
        ),
        alt.Chart(inline([node for node in nodes if node["role"] == "head"]))
        .mark_text(fontSize=8, color="white", fontWeight="bold")
        .encode(x=across, y=down, text=alt.Text("client:N")),
        alt.Chart(inline(notes))
        .mark_text(fontSize=10, color=MUTED)
        .encode(x=across, y=down, text=alt.Text("text:N")),
    ]


def _around(members: int, middle: tuple[float, float], centred: bool) -> Array:
    """Places for members: a sunflower's, outside the head's own disc where there is one."""
    at = np.arange(members) + (1.5 if centred else 0.5)
    far, turn = STEP * np.sqrt(at), GOLDEN * np.arange(members)
    return np.stack([middle[0] + far * np.cos(turn), middle[1] + far * np.sin(turn)], axis=1)


def _node(
    client: int,
    x: float,
    y: float,
    counts: Array,
    labels: Sequence[str],
    role: str,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    row = counts[client]
    total = int(row.sum())
    most = int(row.argmax())
    holds = NOTHING if not total else labels[most] if row[most] > total / 2 else MIXED
    return {
        "client": int(client) if names is None else shown_name(names, int(client)),
        "x": float(x),
        "y": float(y),
        "holds": holds,
        "samples": total,
        "role": role,
    }

"""How every client fares: the final model on its own test samples, by how much it holds and how skewed that is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from unskew.report.assembly import Picture
from unskew.report.page import Block, Figure, Paragraph, TableBlock
from unskew.report.results.curves import WIDTH
from unskew.report.results.gather import Record
from unskew.report.results.leaderboard import Row
from unskew.report.results.words import DASH, plain
from unskew.report.theme import HEAT, MUTED, inline, themed

LISTED = 40
"""Clients up to which each has a line of its own."""

DRAWN = 2000
"""Clients that a picture shows; of more, every second, third, ..."""

BESIDE = 3
"""Methods beside each other in a picture."""


def tested_clients(run: Record) -> list[dict[str, Any]]:
    """Every client's name, accuracy, numbers of samples and EMD, where the result lists them."""
    return list((run.result.get("client_tests") or {}).get("each") or [])


def is_tested(row: Row) -> bool:
    """Whether a run of this row judged clients on their own test samples."""
    return any((run.result.get("client_tests") or {}).get("clients") for run in row.group.counted)


def tested_section(rows: Sequence[Row]) -> Iterator[Block]:
    """The spread over clients by method, a point per client by size and skew, and each by name where they are few."""
    judged = [row for row in rows if is_tested(row)]
    if not judged:
        return
    yield _spreads(judged)
    yield Paragraph(
        "The model that a run ends with, on samples of each client that nobody trained on. All clients count alike, "
        "however many samples they have; sd is over clients. Means over seeds.",
        quiet=True,
    )
    shown = {row.group.label: run for row in judged if (run := _first_listed(row)) is not None}
    if shown:
        yield Figure(themed(client_scatter(shown)), _caption(shown), alt=_told(shown))
        if (table := _table(judged)) is not None:
            yield table


def _spreads(rows: Sequence[Row]) -> TableBlock:
    head = [
        "method",
        "mean, %",
        "sd",
        "worst client, %",
        "lower quarter, %",
        "median, %",
        "best client, %",
        "clients",
    ]
    table = []
    for row in rows:
        found = [
            told for run in row.group.counted if (told := run.result.get("client_tests") or {}).get("clients")
        ]
        means = {
            key: sum(float(told[key]) for told in found) / len(found)
            for key in ("mean", "sd", "min", "p25", "median", "max", "clients")
        }
        worst = _worst(row)
        cells = [plain(means[key]) for key in ("mean", "sd", "min", "p25", "median", "max")]
        cells[2] += f" ({worst})" if worst else ""
        table.append([row.group.label, *cells, f"{means['clients']:,.0f}"])
    return TableBlock(head, table, frozenset(head[1:]))


def _worst(row: Row) -> str:
    """Who is served worst, where it is the same client with every seed."""
    each = [tested_clients(run) for run in row.group.counted]
    named = {min(one, key=lambda c: c["accuracy"])["client"] for one in each if one}
    return str(named.pop()) if len(named) == 1 else ""


def _first_listed(row: Row) -> Record | None:
    return next((run for run in row.group.counted if tested_clients(run)), None)


def client_scatter(runs: dict[str, Record]) -> Picture:
    """A point a client: how many samples it trains on, how accurate the model is on its tests, and its EMD."""
    points = [{**one, "label": label} for label, run in runs.items() for one in _thinned(tested_clients(run))]
    sizes = [point["samples"] for point in points if point["samples"] > 0]
    wide = bool(sizes) and max(sizes) > 30 * min(sizes)
    columns = min(BESIDE, len(runs))
    room = (WIDTH - 150) // columns - 60
    spread = {"type": "symlog"} if wide else {"zero": False}
    x = alt.X(
        "samples:Q",
        scale=alt.Scale(nice=True, padding=8, **spread),
        axis=alt.Axis(title="samples that the client trains on", format="~s", tickCount=5, domain=False),
    )
    chart = (
        alt.Chart(inline(points))
        .mark_circle(size=64 if len(points) <= 300 else 28, opacity=0.85, stroke=MUTED, strokeWidth=0.5)
        .encode(
            x=x,
            y=alt.Y(
                "accuracy:Q",
                scale=alt.Scale(
                    domain=[math.floor(10 * min(p["accuracy"] for p in points)) / 10, 1], padding=6
                ),
                axis=alt.Axis(
                    title="accuracy on its own test samples", format="%", tickCount=5, domain=False
                ),
            ),
            color=alt.Color(
                "emd:Q",
                scale=alt.Scale(domain=_emd_range(points), range=[*HEAT]),
                legend=alt.Legend(title="EMD of its labels", gradientLength=120, format=".1f", tickCount=4),
            ),
            tooltip=[
                alt.Tooltip("client:N"),
                alt.Tooltip("accuracy:Q", format=".1%"),
                alt.Tooltip("tested:Q", title="test samples"),
                alt.Tooltip("samples:Q", title="training samples"),
                alt.Tooltip("emd:Q", format=".2f", title="EMD"),
            ],
        )
        .properties(width=room if columns > 1 else WIDTH - 190, height=250)
    )
    if len(runs) == 1:
        return chart
    return chart.facet(
        alt.Facet("label:N", sort=list(runs), header=alt.Header(title=None, labelLimit=room)), columns=columns
    )


def _emd_range(points: Sequence[dict[str, Any]]) -> list[float]:
    """From a round number to a round number, all the shades for what there is."""
    known = [point["emd"] for point in points if point["emd"] is not None] or [0.0, 2.0]
    low, high = math.floor(2 * min(known)) / 2, math.ceil(2 * max(known)) / 2
    return [low, high if high > low else low + 0.5]


def _thinned(each: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return each[:: -(-len(each) // DRAWN)] if len(each) > DRAWN else each


def _caption(runs: dict[str, Record]) -> str:
    seeds = sorted({run.spec.seed for run in runs.values()})
    most = max(len(tested_clients(run)) for run in runs.values())
    said = f"A point is a client (seed {', '.join(map(str, seeds))}): how many samples it trains on, how accurate the "
    said += "model is on its own test samples, and how far its labels are from everybody's (EMD, 0 to 2)."
    return said + (f" Every {-(-most // DRAWN)}th of {most:,} clients is drawn." if most > DRAWN else "")


def _told(runs: dict[str, Record]) -> str:
    said = []
    for label, run in runs.items():
        worst = min(tested_clients(run), key=lambda one: one["accuracy"])
        said.append(f"{label} is least accurate for client {worst['client']} with {worst['accuracy']:.0%}")
    return "Accuracy of clients on their own test samples by size and skew: " + "; ".join(said)


def _table(rows: Sequence[Row]) -> TableBlock | None:
    """One line a client where they are few and the same with every seed: its samples, its EMD, and each method."""
    found = {row.group.label: [e for run in row.group.counted if (e := tested_clients(run))] for row in rows}
    every = [each for runs in found.values() for each in runs]
    names = [one["client"] for one in every[0]]
    if len(names) > LISTED or any([one["client"] for one in each] != names for each in every):
        return None
    if len({tuple((one["samples"], one["tested"]) for one in each) for each in every}) > 1:
        return None  # other seeds dealt other samples: these are other clients under the same numbers
    head = ["client", "trains on", "tested by", "EMD", *(f"{label}, %" for label in found)]
    table = [
        [
            one["client"],
            f"{one['samples']:,}",
            f"{one['tested']:,}",
            DASH if one["emd"] is None else f"{one['emd']:.2f}",
            *(
                plain(sum(each[at]["accuracy"] for each in runs) / len(runs))
                for runs in found.values()
                if runs
            ),
        ]
        for at, one in enumerate(every[0])
    ]
    return TableBlock(head, table, frozenset(head[1:]))

"""Should a client join? What each gets on its own (local_only), beside what it gets with the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from unskew.report.assembly import Picture, layered
from unskew.report.page import Block, Figure, Paragraph, TableBlock
from unskew.report.results.curves import WIDTH
from unskew.report.results.gather import Record
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style, colour
from unskew.report.results.staying import each_client, gaining, lower_bound, range_of
from unskew.report.results.words import signed
from unskew.report.theme import INK, MUTED, inline, themed

LISTED = 40
"""Clients up to which each has a line of its own; of more the spread is told."""


def joining_section(rows: Sequence[Row], looks: Mapping[str, Style]) -> Iterator[Block]:
    """Every client's accuracy on its own against each method's, as a picture and client by client."""
    alone = lower_bound(rows)
    runs = [run for run in alone.group.counted if each_client(run)] if alone else []
    if alone is None or not runs:
        return
    run = runs[0]
    others = [row for row in rows if row is not alone]
    yield Figure(
        themed(_strip(each_client(run), others, looks)),
        f"A dot is the model that one client trains for itself ({alone.group.label}, seed {run.spec.seed}), judged on "
        "the global test set; the dark bar is their mean, lines are the methods' means.",
        alt=f"Accuracy of {len(each_client(run))} clients on their own, from {range_of(alone)[0]:.0%} to "
        f"{range_of(alone)[1]:.0%}",
    )
    methods = [row for row in others if not row.group.bound]
    counted = [(row.group.label, *gaining(alone, row)) for row in methods]
    told = [f"with {label} {better} of {of}" for label, better, of in counted if of]
    if told:
        seeds = " (counted once a seed)" if any(of > len(each_client(run)) for _, _, of in counted) else ""
        yield Paragraph(f"Clients that do better than on their own{seeds}: {', '.join(told)}.")
    table = _table(runs, methods)
    if table is not None:
        yield table
    left = (run.result.get("own_models") or {}).get("of", 0) - len(each_client(run))
    if left > 0:
        yield Paragraph(
            f"{left} client{'s' if left > 1 else ''} of seed {run.spec.seed} had no turn or no sample and "
            f"{'are' if left > 1 else 'is'} not counted.",
            quiet=True,
        )


def _table(runs: Sequence[Record], methods: Sequence[Row]) -> TableBlock | None:
    """One line a client: alone, and with each method; means over seeds."""
    names = [one["client"] for one in each_client(runs[0])]
    same = all([one["client"] for one in each_client(run)] == names for run in runs)
    if not same or len(names) > LISTED or not methods:
        return None
    own = np.mean([[one["accuracy"] for one in each_client(run)] for run in runs], axis=0)
    best = methods[0]
    head = ["client", "on its own, %", f"with {best.group.label}, %", "gain, points"]
    cells = [
        [name, f"{100 * value:.1f}", f"{100 * best.accuracy:.1f}", signed(best.accuracy - value)]
        for name, value in zip(names, own.tolist(), strict=True)
    ]
    return TableBlock(head, cells, frozenset(head[1:]))


def _strip(each: Sequence[Mapping[str, Any]], others: Sequence[Row], looks: Mapping[str, Style]) -> Picture:
    """Clients as dots along the accuracy, spread apart by their place; methods as lines."""
    dots = [
        {"client": one["client"], "accuracy": one["accuracy"], "place": (at * 0.618034) % 1}
        for at, one in enumerate(each)
    ]
    lines = [{"label": row.group.label, "accuracy": row.accuracy} for row in others]
    x = alt.X(
        "accuracy:Q",
        scale=alt.Scale(zero=False, nice=True, padding=12),
        axis=alt.Axis(title="global test accuracy", format="%", tickCount=6, domain=False),
    )
    shown = (
        alt.Chart(inline(dots))
        .mark_circle(size=44, opacity=0.55, color=MUTED)
        .encode(
            x=x,
            y=alt.Y("place:Q", scale=alt.Scale(domain=[-0.1, 1.1]), axis=None),
            tooltip=[alt.Tooltip("client:N"), alt.Tooltip("accuracy:Q", format=".1%")],
        )
    )
    labels = [row.group.label for row in others]
    rules = (
        alt.Chart(inline(lines))
        .mark_rule(strokeWidth=2)
        .encode(
            x=x,
            color=colour(labels, looks, alt.Legend(title=None, orient="top", columns=4, labelLimit=220)),
            strokeDash=alt.StrokeDash(
                "label:N",
                scale=alt.Scale(domain=labels, range=[list(looks[label].dash) for label in labels]),
                legend=None,
            ),
            tooltip=[alt.Tooltip("label:N"), alt.Tooltip("accuracy:Q", format=".1%")],
        )
    )
    mean = (
        alt.Chart(inline([{"accuracy": float(np.mean([d["accuracy"] for d in dots]))}]))
        .mark_tick(thickness=3, size=110, color=INK)
        .encode(x=x, tooltip=[alt.Tooltip("accuracy:Q", format=".1%", title="mean on their own")])
    )
    return layered(shown, mean, *([rules] if lines else []), width=WIDTH - 40, height=110)

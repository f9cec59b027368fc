"""Pictures on the screen of a run, in the report's theme; those that grow get their rows from the page."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from unskew.errors import InputError
from unskew.report.results.gather import Record
from unskew.report.theme import BLUE, ORANGE, themed

ROWS = "rounds"
"""The data set of a chart that the page puts rows into."""


@functools.lru_cache(maxsize=32)
def _curve(key: str, title: str, percent: bool, rounds: int, colour: str) -> dict[str, Any]:
    import altair as alt

    axis = alt.Axis(title=None, format=".0%" if percent else "~g", tickCount=5, domain=False)
    chart = (
        alt.Chart(alt.NamedData(name=ROWS), title=alt.TitleParams(title))
        .mark_line(color=colour, strokeJoin="round")
        .encode(
            x=alt.X("round:Q")
            .scale(domain=[1, max(2, rounds)], nice=False)
            .axis(title="round", grid=False, tickCount=6, tickMinStep=1, format="d"),
            y=alt.Y(f"{key}:Q").scale(zero=percent).axis(axis),
            tooltip=[alt.Tooltip("round:Q"), alt.Tooltip(f"{key}:Q", format=".4f", title=title)],
        )
        .properties(width=470, height=210)
    )
    return themed(chart)


def curves(record: Record, metrics: Sequence[Any]) -> list[dict[str, Any]]:
    """A chart of the first metric, one of the loss, and one of each other metric, over rounds."""
    wanted = [(m.key, m.title[0].upper() + m.title[1:], m.percent) for m in metrics]
    loss = ("global_test_loss", "Log-loss", False)
    ordered = [wanted[0], *([loss] if loss not in wanted[:1] else [])]
    ordered += [one for one in wanted[1:] if one[0] not in {key for key, _, _ in ordered}]
    return [
        {
            "key": key,
            "title": title,
            "specification": _curve(
                key, title, percent, record.spec.rounds, ORANGE if key == loss[0] else BLUE
            ),
        }
        for key, title, percent in ordered[:6]
    ]


def class_bars(labels: Sequence[str]) -> dict[str, Any]:
    """The accuracy of every class, a bar each; the page puts the rows in."""
    import altair as alt

    chart = (
        alt.Chart(alt.NamedData(name=ROWS), title="Accuracy of each class, last round judged")
        .mark_bar(cornerRadiusEnd=2, color=BLUE)
        .encode(
            x=alt.X("class:N", sort=list(labels)).axis(
                title=None, labelAngle=0, labelOverlap="parity", ticks=False
            ),
            y=alt.Y("accuracy:Q")
            .scale(domain=[0, 1])
            .axis(title=None, format=".0%", tickCount=4, domain=False),
            tooltip=["class:N", alt.Tooltip("accuracy:Q", format=".1%")],
        )
        .properties(width=470, height=210)
    )
    return themed(chart)


def held_picture(record: Record) -> dict[str, Any]:
    """Who holds what: the same picture as in reports and in `unskew partition`."""
    held = record.partition
    if held is None:
        raise InputError(record.no_partition or "this run's folder does not say who held what")
    from unskew.metrics import skew
    from unskew.report.charts import partition_picture

    labels = [str(label) for label in record.data.get("labels", range(held.counts.shape[1]))]
    about = f"{record.data.get('name', record.spec.dataset)}, {record.spec.partition}"
    return themed(partition_picture(held.counts, skew(held.counts), labels, about, names=held.names))

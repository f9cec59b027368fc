"""Pictures on the screen of a run, in the report's theme; those that grow get their rows from the page."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from unskew.data.federation import shown_name
from unskew.errors import InputError
from unskew.report.results.gather import Record
from unskew.report.theme import BLUE, ORANGE, PAPER, inline, themed
from unskew.studio.run_view import legs_of

MOST_COLUMNS, MOST_ROWS, WIDE = 120, 60, 760  # of the picture of who took part when

ROWS = "rounds"
"""The data set of a chart that the page puts rows into."""


@functools.lru_cache(maxsize=32)
def _curve(key: str, title: str, percent: bool, rounds: int, colour: str) -> dict[str, Any]:
    import altair as alt

    axis = alt.Axis(title=None, format="%" if percent else "~g", tickCount=5, domain=False)
    chart = (
        alt.Chart(alt.NamedData(name=ROWS), title=alt.TitleParams(title))
        .mark_line(color=colour, strokeJoin="round")
        .encode(
            x=alt.X("round:Q")
            .scale(domain=[1, max(2, rounds)], nice=False)
            .axis(title="round", grid=False, tickCount=max(1, min(6, rounds - 1)), format="d"),
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


def who_took_part(record: Record) -> dict[str, Any]:
    """Clients by rounds, coloured where one trained; a column may be several rounds, of many clients some are drawn."""
    import altair as alt

    cells, columns, each, clients = took_part(record)
    if not cells:
        raise InputError("the log of this run does not say who took part: an earlier version wrote it")
    seen = len(
        {client for line in record.lines for leg in legs_of(line) for client in leg.get("clients", ())}
    )
    about = f"colour = share of {each} rounds in which it trained" if each > 1 else "a mark = it trained"
    if seen > len(clients):
        about += f" · {len(clients)} of the {seen} clients that trained are drawn"
    share = alt.Color("share:Q").scale(domain=[0, 1], range="ramp").legend(title="share", format="%")
    chart = (
        alt.Chart(inline(cells), title=alt.TitleParams("Who took part when", subtitle=[about]))
        .mark_rect(stroke=PAPER, strokeWidth=1 if len(columns) <= 80 else 0)
        .encode(
            x=alt.X("round:O")
            .scale(domain=columns, paddingInner=0)
            .axis(
                title="round",
                domain=False,
                ticks=False,
                labelAngle=0,
                values=columns[:: max(1, len(columns) // 10)],
            ),
            y=alt.Y("client:N")
            .scale(domain=clients, paddingInner=0)
            .axis(title="client", domain=False, ticks=False, labelLimit=110, labelOverlap="parity"),
            color=share if each > 1 else alt.value(BLUE),
            tooltip=["client:N", "round:O", *([alt.Tooltip("share:Q", format=".0%")] if each > 1 else [])],
        )
        .properties(width=WIDE, height=max(60, min(420, 16 * len(clients))))
    )
    return themed(chart)


def took_part(record: Record) -> tuple[list[dict[str, Any]], list[int], int, list[str]]:
    """The cells of that picture, the first round of each column, the rounds of a column, and the clients drawn."""
    last = record.round
    each = max(1, -(-last // MOST_COLUMNS))
    times: dict[int, Counter[int]] = defaultdict(Counter)
    for line in record.lines:
        trained = {client for leg in legs_of(line) for client in leg.get("clients", ())}
        for client in trained:
            times[client][each * ((int(line["round"]) - 1) // each) + 1] += 1
    ordered = sorted(times)
    step = max(1, -(-len(ordered) // MOST_ROWS))
    drawn = ordered[::step]
    held = record.partition
    names = {
        client: str(shown_name(held.names, client)) if held is not None and held.names else str(client)
        for client in drawn
    }
    cells = [
        {"client": names[client], "round": first, "share": count / min(each, last - first + 1)}
        for client in drawn
        for first, count in sorted(times[client].items())
    ]
    return cells, list(range(1, last + 1, each)), each, list(names.values())


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

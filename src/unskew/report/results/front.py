"""The front of methods that nobody beats: in the first metric, in traffic and in what they disclose together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from unskew.report.assembly import Picture, layered
from unskew.report.results import words
from unskew.report.results.curves import WIDTH
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style, colour
from unskew.report.theme import PAPER, inline

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down")


@dataclass(frozen=True, eq=False)
class TradeOff:
    """A method as one chooses it: what it reaches, moves and discloses. ``beaten_by`` is who is better in all."""

    row: Row
    gain: float  # more is better
    bytes: float
    kinds: int  # of things that leave a client beyond a model update
    beaten_by: str = ""


def trade_offs(rows: Sequence[Row]) -> list[TradeOff]:
    """The methods that were tried; a bound is no choice, and one whose disclosures are not known cannot be judged."""
    found = []
    for row in rows:
        told = [record.discloses for record in row.group.counted]
        if row.group.bound or any(kinds is None for kinds in told):
            continue
        kinds = {kind for held in told for kind in held or ()}
        found.append(TradeOff(row, row.metric.gain(row.final.mean), row.bytes.mean, len(kinds)))
    return [
        TradeOff(
            one.row,
            one.gain,
            one.bytes,
            one.kinds,
            next((o.row.group.label for o in found if _beats(o, one)), ""),
        )
        for one in found
    ]


def _beats(a: TradeOff, b: TradeOff) -> bool:
    """At least as good in each, and better in one."""
    better = (a.gain - b.gain, b.bytes - a.bytes, b.kinds - a.kinds)
    return min(better) >= 0 and max(better) > 0


def has_front(rows: Sequence[Row]) -> bool:
    """Whether there is anything to choose from."""
    return len(trade_offs(rows)) > 1


def front_told(rows: Sequence[Row]) -> str:
    """Who is on the front, in one sentence."""
    front = [one.row.group.label for one in trade_offs(rows) if not one.beaten_by]
    if len(front) == 1:
        return f"{front[0]} is as good as any other in all three."
    return f"{', '.join(front[:-1])} and {front[-1]}: nobody is better in all three."


def front_picture(rows: Sequence[Row], looks: Mapping[str, Style], *, width: int = WIDTH) -> Picture:
    """A point a method: the first metric against bytes, its shape how many kinds of things it discloses."""
    choices = trade_offs(rows)
    metric = rows[0].metric
    kinds = sorted({one.kinds for one in choices})
    named = {n: "nothing more" if n == 0 else "1 kind" if n == 1 else f"{n} kinds" for n in kinds}
    labels = [one.row.group.label for one in choices]
    points = [
        {
            "label": one.row.group.label,
            "bytes": max(1.0, one.bytes),
            "value": one.row.final.mean,
            "discloses": named[one.kinds],
            "front": "on the front" if not one.beaten_by else f"beaten by {one.beaten_by}",
            "traffic": words.size(one.bytes),
            "side": side,
        }
        for one, side in zip(choices, _sides(choices), strict=True)
    ]
    sizes = [max(1.0, one.bytes) for one in choices]
    wide = max(sizes) > 8 * min(sizes)
    x = alt.X(
        "bytes:Q",
        scale=alt.Scale(type="log" if wide else "linear", zero=False, padding=40),
        axis=alt.Axis(
            title="bytes of a run: down + up + between clients",
            labelExpr="format(datum.value, '~s') + 'B'",
            grid=False,
            tickCount=6,
        ),
    )
    share = ".1%" if metric.percent else ".4g"
    base = alt.Chart(inline(points)).encode(
        x=x,
        y=alt.Y(
            "value:Q",
            scale=alt.Scale(zero=False, padding=24, reverse=metric.gain(1.0) < 0),
            axis=alt.Axis(
                title=f"final global test {metric.title}",
                format="%" if metric.percent else "~g",
                tickCount=6,
                domain=False,
            ),
        ),
        tooltip=[
            alt.Tooltip("label:N", title="method"),
            alt.Tooltip("value:Q", title=metric.title, format=share),
            alt.Tooltip("traffic:N"),
            alt.Tooltip("discloses:N", title="leaves a client beyond updates"),
            alt.Tooltip("front:N", title="choice"),
        ],
    )
    tone = colour(labels, looks, legend=None)
    shape = alt.Shape(
        "discloses:N",
        scale=alt.Scale(
            domain=list(named.values()), range=[SHAPES[min(at, len(SHAPES) - 1)] for at in range(len(kinds))]
        ),
        legend=alt.Legend(title="leaves a client beyond updates", orient="top", symbolFillColor=PAPER),
    )
    on = alt.datum.front == "on the front"
    return layered(
        base.transform_filter(on)
        .mark_point(size=170, filled=True, opacity=1)
        .encode(color=tone, shape=shape),
        base.transform_filter(~on)
        .mark_point(size=150, filled=False, strokeWidth=2, opacity=1)
        .encode(color=tone, shape=shape),
        *(
            base.transform_filter(alt.datum.side == side)
            .mark_text(dy=dy, fontSize=11)
            .encode(text=alt.Text("label:N"))
            for side, dy in (("above", -15), ("below", 17))
        ),
        width=width,
        height=300,
    )


def _sides(choices: Sequence[TradeOff]) -> list[str]:
    """Where each name stands: above its point, or below where another's name is there already."""
    found: list[str] = []
    for at in range(len(choices)):
        near = [
            other
            for other in range(at)
            if _apart([c.gain for c in choices], at, other) < 0.08
            and _apart([math.log(max(1.0, c.bytes)) for c in choices], at, other) < 0.12
            and found[other] == "above"
        ]
        found.append("below" if near else "above")
    return found


def _apart(values: Sequence[float], a: int, b: int) -> float:
    """The distance of two values as a share of all."""
    return abs(values[a] - values[b]) / ((max(values) - min(values)) or 1.0)

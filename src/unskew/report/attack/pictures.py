"""Pictures of what attacks found: four kinds of curves, and grids of originals and reconstructions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from unskew.report.assembly import Picture as Picture
from unskew.report.assembly import x_at
from unskew.report.results.look import DASHES, LINES
from unskew.report.theme import MUTED, inline

HEIGHT, WIDE = 230, 330


@dataclass(frozen=True)
class Series:
    """A line of a chart; ``spread`` is how far values reach to either side, ``colour`` that of its method."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    spread: Sequence[float] = ()
    colour: str = ""


def exposure_chart(lines: Sequence[Series], title: str = "Feature exposure", **size: int) -> Picture:
    """eps over rounds: the share of pairs of clients of which one was given the other's."""
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(title="exposure ε", format="%", tickCount=5, domain=False),
    )
    return _lines(lines, title, _whole("round"), y, None, **size)


def correlation_chart(lines: Sequence[Series], title: str = "Correlation", **size: int) -> Picture:
    """c over rounds."""
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(title="distance correlation c", tickCount=5, domain=False),
    )
    return _lines(lines, title, _whole("round"), y, None, **size)


def reconstruction_chart(
    lines: Sequence[Series], blind: float | None = None, title: str = "Reconstruction error", **size: int
) -> Picture:
    """The decoder's error over its training; the dashed line is what knowing nothing gives."""
    y = alt.Y("y:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title="MSE", tickCount=5, domain=False))
    rule = None if blind is None else (blind, "the mean sample")
    return _lines(
        lines,
        title,
        _whole("epoch of the attacker"),
        y,
        rule,
        **size,
    )


def context_chart(lines: Sequence[Series], title: str = "Context detection", **size: int) -> Picture:
    """The attacker's accuracy against how many examples it learnt from; 50% is chance."""
    x = alt.X(
        "x:Q",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(
            values=sorted({v for s in lines for v in s.x}),
            title="examples the attacker learns from",
            grid=False,
            format="~s",
        ),
    )
    lowest = min(
        (a - b for s in lines for a, b in zip(s.y, s.spread or [0.0] * len(s.y), strict=True)), default=0.4
    )
    least = min(0.4, max(0.0, math.floor(10 * lowest) / 10))
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=[least, 1]),
        axis=alt.Axis(title="accuracy", format="%", tickCount=6, domain=False),
    )
    return _lines(lines, title, x, y, (0.5, "chance"), **size)


def _whole(title: str) -> alt.X:
    """An axis of whole numbers: ticks between them, which a short one has, get no label."""
    label = "datum.value % 1 ? '' : format(datum.value, 'd')"
    return alt.X("x:Q", axis=alt.Axis(title=title, grid=False, tickMinStep=1, labelExpr=label))


def _lines(
    lines: Sequence[Series],
    title: str,
    x: alt.X,
    y: alt.Y,
    rule: tuple[float, str] | None = None,
    *,
    width: int = WIDE,
    height: int = HEIGHT,
) -> Picture:
    values = [
        {"label": s.label, "x": a, "y": b, "low": b - d, "high": b + d}
        for s in lines
        for a, b, d in zip(s.x, s.y, s.spread or [0.0] * len(s.x), strict=True)
    ]
    labels = [s.label for s in lines]
    colours = [s.colour or LINES[at % len(LINES)] for at, s in enumerate(lines)]
    dashes = [DASHES[colours[:at].count(own) % len(DASHES)] for at, own in enumerate(colours)]
    colour = alt.Color(
        "label:N",
        scale=alt.Scale(domain=labels, range=colours),
        legend=alt.Legend(
            title=None,
            orient="bottom",
            columns=1 if max(map(len, labels), default=0) > 22 else 2,
            labelLimit=330,
            symbolType="stroke",
            symbolStrokeWidth=3,
            symbolOpacity=1,
        ),
    )
    dash = alt.StrokeDash("label:N", scale=alt.Scale(domain=labels, range=dashes), legend=None)
    base = alt.Chart(inline(values)).encode(x=x, color=colour)
    layers = []
    if any(s.spread for s in lines):
        reach = y.copy()
        reach.shorthand = "low:Q"
        layers.append(base.mark_area(opacity=0.15, clip=True).encode(y=reach, y2=alt.Y2("high:Q")))
    few = max((len(s.x) for s in lines), default=0) <= 30
    layers.append(base.mark_line(point={"size": 28} if few else False).encode(y=y, strokeDash=dash))
    if rule is not None:
        where = alt.Chart(inline([{"y": rule[0], "text": rule[1]}])).encode(y=alt.Y("y:Q"))
        layers.append(where.mark_rule(strokeDash=[4, 3], color=MUTED))
        layers.append(
            where.mark_text(align="right", dy=-6, color=MUTED).encode(
                text=alt.Text("text:N"), x=x_at(width - 2)
            )
        )
    return alt.layer(*layers).properties(width=width, height=height, title=title)

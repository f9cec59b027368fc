"""Accuracy over rounds of an exhibit's group: a line a run, its colour the method.

With a ``window``, lines are running means over that many evaluations, and what was measured lies pale behind them.
With a ``part``, such as sem, every base method has a panel of its own: the base alone and with that part.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import InputError
from unskew.report.drawing import save_chart
from unskew.report.theme import BLUE, GREEN, MUTED, ORANGE, PINK, RED
from unskew.reproduce.exhibit import Group
from unskew.reproduce.results import Line

ALONE = "the base alone"


def draw_curves(lines: Iterable[Line], group: Group, path: Path, window: int = 1, part: str = "") -> Path:
    """The picture of a group's lines; where none has a curve, as none of the installed ones has, that is said."""
    rows = [row for line in lines if line["group"] == group.name for row in _rows(line, window, part)]
    if not rows:
        raise InputError(f"no run of {group.exhibit}, {group.name} is here with its curve; run it first")
    return save_chart(_chart(rows, window, bool(part)), path, f"Accuracy over rounds: {group.said}")


def _rows(line: Line, window: int, part: str) -> list[dict[str, Any]]:
    values = line.get("accuracy") or []
    method = line["method"]
    base = "fedavg" if method == part else method.removesuffix(f"+{part}")
    said = method if not part else ALONE if base == method else f"with {part}"
    rows = []
    for at, value in enumerate(values):
        around = values[max(0, at - window // 2) : at + window // 2 + 1]
        rows.append(
            {
                "round": line["judged_every"] * (at + 1),
                "measured": value,
                "mean": float(np.mean(around)),
                "method": said,
                "base": base,
                "seed": line["seed"],
            }
        )
    return rows


def _chart(rows: list[dict[str, Any]], window: int, panels: bool) -> Any:
    import altair as alt

    first = ("fedavg", "phase_shift(1)", ALONE)
    methods = sorted({row["method"] for row in rows}, key=lambda m: (m not in first, m))
    colour = alt.Color("method:N").scale(
        domain=methods, range=[MUTED, BLUE, ORANGE, GREEN, RED, PINK][: len(methods)]
    )
    colour = colour.legend(title=None, orient="top", symbolType="stroke", symbolOpacity=1)
    drawn = alt.Chart().encode(
        x=alt.X("round:Q").axis(title="round", grid=False, tickCount=4 if panels else 8).scale(nice=False),
        color=colour,
        detail="seed:N",
    )
    axis = alt.Axis(title=None, format="%", tickCount=6)
    layers = [drawn.mark_line().encode(y=alt.Y("mean:Q").axis(axis).scale(zero=False))]
    if window > 1:
        pale = drawn.mark_line(opacity=0.25, strokeWidth=1)
        layers.insert(0, pale.encode(y=alt.Y("measured:Q").axis(axis)))
    chart = alt.layer(*layers, data=alt.InlineData(values=rows))
    title = "Global test accuracy"
    if not panels:
        return chart.properties(width=620, height=280, title=title)
    bases = list(dict.fromkeys(row["base"] for row in rows))
    facet = alt.Facet("base:N").sort(bases).title(None)
    whole = chart.properties(width=220, height=170).facet(facet, columns=3).properties(title=title)
    return whole.resolve_axis(x="independent")  # shared, it would also be drawn under no panel

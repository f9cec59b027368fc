"""Pictures that stand still: final accuracies with intervals, accuracy by class, bytes by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from unskew.report.assembly import Picture, layered, x_at
from unskew.report.results.curves import WIDTH
from unskew.report.results.gather import number
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style, colour
from unskew.report.results.words import percent
from unskew.report.theme import BLUE, GREEN, HEAT, INK, MUTED, ON_LIGHT, ORANGE, PINK, RED, SKY, inline

NAMES = 170  # pixels for the names of methods
MOST_NUMBERS = 24  # classes whose cell still has room for its number


def final_intervals(
    rows: Sequence[Row],
    looks: Mapping[str, Style],
    title: str | list[str],
    *,
    width: int,
    height: int,
    names: int = NAMES,
) -> Picture:
    """Where methods end: a dot a seed, the mean, and ± its spread; the leaderboard as a picture.

    ``names`` is the room for the methods' names; without any they stand in the picture.
    """
    labels = [row.group.label for row in rows]
    metric = rows[0].metric
    inside = not names
    ends = [
        {
            "label": row.group.label,
            "mean": row.final.mean,
            "low": row.final.within[0],
            "high": row.final.within[1],
            "text": (f"{row.group.label}: " if inside else "") + percent(row.final).replace("%", ""),
        }
        for row in rows
    ]
    seeds = [{"label": row.group.label, "mean": value} for row in rows for value in row.final.values]
    beside = {"labels": False} if inside else {"labelLimit": names, "minExtent": names, "maxExtent": names}
    y = alt.Y(
        "label:N",
        scale=alt.Scale(domain=labels),
        axis=alt.Axis(title=None, domain=False, ticks=False, **beside),
    )
    axis = alt.Axis(
        title=f"final global test {metric.title}",
        format="%" if metric.percent else "~g",
        tickCount=min(5, width // 45),
        domain=False,
    )
    x = alt.X("mean:Q", scale=alt.Scale(zero=False, nice=True, padding=18), axis=axis)
    base = alt.Chart(inline(ends)).encode(y=y, color=colour(labels, looks, legend=None))
    told = base.mark_text(align="left" if inside else "center", dy=-13, fontSize=10, color=INK, limit=width)
    layers = [
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", axis=axis), x2=alt.X2("high:Q")),
        alt.Chart(inline(seeds))
        .mark_circle(opacity=0.4, size=26)
        .encode(x=x, y=y, color=colour(labels, looks, legend=None)),
        base.mark_point(filled=True, size=80, opacity=1).encode(x=x),
        told.encode(color=alt.ColorValue(INK), x=x_at(0) if inside else x, text=alt.Text("text:N")),
    ]
    return layered(*layers, width=width, height=height, title=title)


def class_heat_map(
    rows: Sequence[Row], labels: Sequence[str] | None, *, width: int = WIDTH
) -> Picture | None:
    """Final accuracy by class, the mean over seeds; None where no run has it."""
    cells: list[dict[str, Any]] = []
    for row in rows:
        for at, mean in enumerate(class_accuracies(row)):
            if mean is not None:
                name = labels[at] if labels is not None and at < len(labels) else str(at)
                cells.append({"label": row.group.label, "at": at, "class": name, "accuracy": mean})
    if not cells:
        return None
    classes = [c["class"] for c in {c["at"]: c for c in sorted(cells, key=lambda c: c["at"])}.values()]
    room = width - 190
    step = max(6.0, min(72.0, room / len(classes)))
    long = max(len(c) for c in classes) * 6.5 > step
    every = max(1, -(-len(classes) * 14 // room))
    base = alt.Chart(inline(cells)).encode(
        x=alt.X(
            "class:N",
            scale=alt.Scale(domain=classes, paddingInner=0.04),
            axis=alt.Axis(
                title="class",
                orient="top",
                labelAngle=-40 if long else 0,
                domain=False,
                ticks=False,
                values=classes[::every],
            ),
        ),
        y=alt.Y(
            "label:N",
            scale=alt.Scale(domain=[row.group.label for row in rows], paddingInner=0.06),
            axis=alt.Axis(title=None, domain=False, ticks=False, labelLimit=180),
        ),
        tooltip=[alt.Tooltip("label:N"), alt.Tooltip("class:N"), alt.Tooltip("accuracy:Q", format=".1%")],
    )
    least = np.floor(10 * min(cell["accuracy"] for cell in cells)) / 10  # all the shades for what differs
    least = min(float(least), 0.9)
    layers = [
        base.mark_rect().encode(
            color=alt.Color(
                "accuracy:Q",
                scale=alt.Scale(domain=[least, 1], range=["#f4f7fa", *HEAT[:-1]], clamp=True),
                legend=alt.Legend(title="accuracy", format="%", tickCount=3, gradientLength=90),
            )
        )
    ]
    if len(classes) <= MOST_NUMBERS:
        dark = alt.datum.accuracy > least + 0.65 * (1 - least)
        layers.append(
            base.mark_text(fontSize=11).encode(
                text=alt.Text("accuracy:Q", format=".0%"),
                color=alt.ColorValue(ON_LIGHT, condition=[{"test": str(dark), "value": "white"}]),
            )
        )
    return layered(*layers, width=round(step * len(classes)), height=30 * len(rows))


def class_accuracies(row: Row) -> list[float | None]:
    """The mean over seeds of the last judged round's accuracy by class; None where no sample was."""
    found = [record.final.get("per_class_accuracy") or [] for record in row.group.counted]
    means: list[float | None] = []
    for at in range(max(map(len, found), default=0)):
        values = [number(f[at]) for f in found if at < len(f)]
        known = [v for v in values if v is not None]
        means.append(sum(known) / len(known) if known else None)
    return means


def cost_bars(rows: Sequence[Row], *, width: int = WIDTH) -> Picture | None:
    """Bytes of a run by direction and kind, the mean over seeds; None where nothing was moved."""
    words = {"down": "to clients", "up": "from clients", "peer": "between clients"}
    bars: list[dict[str, Any]] = []
    for row in rows:
        kinds = sum((run.bytes_by_kind() for run in row.group.counted), Counter[tuple[str, str]]())
        for (direction, kind), total in kinds.items():
            mean = total / len(row.group.counted)
            bars.append({"label": row.group.label, "kind": f"{kind} {words[direction]}", "bytes": mean})
    if not bars:
        return None
    order = list(dict.fromkeys(b["kind"] for b in sorted(bars, key=_models_first)))
    colours = (BLUE, SKY, ORANGE, GREEN, PINK, RED, MUTED, INK)
    return (
        alt.Chart(inline(bars))
        .mark_bar()
        .encode(
            y=alt.Y(
                "label:N",
                scale=alt.Scale(domain=[row.group.label for row in rows], padding=0.25),
                axis=alt.Axis(title=None, domain=False, ticks=False, labelLimit=220),
            ),
            x=alt.X(
                "bytes:Q",
                axis=alt.Axis(
                    title="bytes in a run, mean over seeds",
                    labelExpr="format(datum.value, '~s') + 'B'",
                    tickCount=6,
                    domain=False,
                ),
            ),
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=order, range=[colours[at % len(colours)] for at in range(len(order))]),
                legend=alt.Legend(title=None, orient="top", columns=4, labelLimit=240),
            ),
            order=alt.Order("at:Q"),
            tooltip=[alt.Tooltip("label:N"), alt.Tooltip("kind:N"), alt.Tooltip("bytes:Q", format=",.0f")],
        )
        .transform_calculate(at=f"indexof({order!r}, datum.kind)")
        .properties(width=width - 190, height=max(44, 30 * len(rows)))
    )


def _models_first(bar: Mapping[str, Any]) -> tuple[bool, bool, str]:
    kind = str(bar["kind"])
    return not kind.startswith("model"), "to clients" not in kind, kind

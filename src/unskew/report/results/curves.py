"""Curves of runs: accuracy over rounds, bytes and compute, and whatever else the rounds have measured.

Of a group the mean over seeds is a line and the span from the lowest to the highest seed is a band. The legend
can be clicked to single groups out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Literal

import altair as alt

from unskew.readings import METRICS, Reading
from unskew.report.assembly import Assembled, Picture, below, beside, layered, x_at
from unskew.report.results.gather import Record, moved, number
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style, colour
from unskew.report.theme import MUTED, inline

MOST_POINTS = 240  # of one curve; a screen has no more columns to tell apart
WIDTH = 980
GAP = 96
FIRST = "first"
"""The view whose legend is clicked for all."""

CHOICE = {
    "name": "chosen",
    "select": {"type": "point", "fields": ["label"], "toggle": "true"},
    "bind": "legend",
    "views": [FIRST],
}
"""The selection that a click on the legend makes."""

EXTRA = {
    "weight_divergence": "Weight divergence from the centralised model",
    "validation_accuracy": "Accuracy on the samples set aside for validation",
    "mean_client_test_accuracy": "Mean accuracy on clients' own test samples",
    "worst_client_test_accuracy": "Accuracy of the client that is served worst, on its own test samples",
    "mean_client_train_accuracy": "Mean accuracy on clients' training samples",
    "worst_client_train_accuracy": "Accuracy of the client that is served worst, on its training samples",
}
"""What a round may have measured beside the metrics, and the title of its curves."""


@dataclass(frozen=True)
class Axis:
    """What the first metric is drawn against: a number for every line of a run's log."""

    title: str
    of: Callable[[Record], list[float]]
    label: str = "format(datum.value, '~s')"
    zero: bool = True


ROUNDS = Axis("round", lambda run: [float(line["round"]) for line in run.lines], zero=False)
BYTES = Axis(
    "bytes moved: down + up + between clients",
    lambda run: list(accumulate(moved(line) for line in run.lines)),
    "format(datum.value, '~s') + 'B'",
)
STEPS = Axis(
    "sample-steps of all clients",
    lambda run: list(accumulate(number(line.get("sample_steps")) or 0.0 for line in run.lines)),
)
AIR = Axis(
    "seconds on the air",
    lambda run: list(accumulate(number(line.get("air_s")) or 0.0 for line in run.lines)),
    "format(datum.value, '~s') + 's'",
)


def learning_curves(rows: Sequence[Row], looks: Mapping[str, Style], *, width: int = WIDTH) -> Picture:
    """The first metric against rounds, bytes, sample-steps and time on the air, then the others; one legend for all."""
    metric = rows[0].metric
    what = f"Global test {metric.title}"
    others: dict[str | Reading, str] = {m: f"Global test {m.title} over rounds" for m in rows[0].metrics[1:]}
    if "log_loss" not in {m.name for m in rows[0].metrics}:
        others[METRICS["log_loss"]] = "Loss on the global test set"
    half = (width - GAP) // 2
    goals = [to.target for to in rows[0].reached if to.asked]
    first = panel(
        rows,
        looks,
        f"{what} over rounds",
        measure=metric,
        width=width,
        height=320,
        clickable=True,
        goals=goals,
    ).with_name(FIRST)
    # the bound's data was brought together beforehand: bytes of its rounds compare with nothing
    moving = [row for row in rows if not row.group.bound]
    timed = [
        row for row in moving if all(line.get("air_s") for run in row.group.counted for line in run.lines)
    ]
    small = [
        panel(some, looks, title, axis, metric, width=half, height=220, clickable=True)
        for some, title, axis in (
            (moving, f"{what} against bytes", BYTES),
            (rows, f"{what} against compute", STEPS),
            (timed, f"{what} against time on the air", AIR),
        )
        if some
    ] + [
        panel(rows, looks, title, measure=measure, width=half, height=220, clickable=True)
        for measure, title in (others | EXTRA).items()
        if any(_points(row, ROUNDS, measure) for row in rows)
    ]
    pairs = [beside(*small[at : at + 2], spacing=GAP // 2) for at in range(0, len(small), 2)]
    return below(
        first,
        *pairs,
        spacing=28,
        resolve={"scale": {"color": "shared", "strokeDash": "shared"}},
        params=[CHOICE],
    )


def panel(
    rows: Sequence[Row],
    looks: Mapping[str, Style],
    title: str | list[str],
    axis: Axis = ROUNDS,
    measure: str | Reading = METRICS["accuracy"],
    *,
    width: int,
    height: int,
    clickable: bool = False,
    goals: Sequence[float] = (),
    legend: Literal["top", "bottom"] = "top",
    room: int = WIDTH,
) -> Assembled:
    """One set of curves; ``clickable`` where a click on the legend singles them out.

    ``room`` is how wide the legend may be.
    """
    curves = [_points(row, axis, measure) for row in rows]
    labels = [row.group.label for row in rows]
    share = measure.percent if isinstance(measure, Reading) else measure.endswith("accuracy")
    near = alt.Scale(zero=False, nice=True)
    y = alt.Y(
        "mean:Q",
        scale=near,
        axis=alt.Axis(
            title=None,
            minExtent=36,  # so that panels below one another line up
            format="%" if share else "~g",
            tickCount=6,
            domain=False,
        ),
    )
    precise = ".2%" if share else ".4g"
    places = [point["x"] for curve in curves for point in curve]
    # a round and a half is none
    whole = int(max(places) - (0 if axis.zero else min(places))) if places else 1
    base = alt.Chart(inline(point for curve in curves for point in curve)).encode(
        x=alt.X(
            "x:Q",
            scale=alt.Scale(nice=False, zero=axis.zero),
            axis=alt.Axis(
                title=axis.title,
                grid=False,
                tickCount=max(1, min(6, width // 50, whole)),
                labelExpr=axis.label,
            ),
        ),
        color=colour(
            labels,
            looks,
            legend=alt.Legend(
                title=None,
                orient=legend,
                columns=max(1, room // (46 + 7 * max(map(len, labels)))),
                symbolType="stroke",
                symbolStrokeWidth=3,
                symbolOpacity=1,
                labelLimit=min(300, max(120, room - 40)),
                labelFontSize=12,
            ),
        ),
        tooltip=[
            alt.Tooltip("label:N", title="method"),
            alt.Tooltip("round:Q"),
            alt.Tooltip("mean:Q", format=precise),
            alt.Tooltip("low:Q", format=precise, title="lowest seed"),
            alt.Tooltip("high:Q", format=precise, title="highest seed"),
        ],
    )
    dash = alt.StrokeDash(
        "label:N",
        scale=alt.Scale(domain=labels, range=[list(looks[label].dash) for label in labels]),
        legend=None,
    )
    dots = {"size": 18, "filled": True} if max(map(len, curves)) <= 30 else False
    layers: list[Picture] = []
    if any(row.final.n > 1 for row in rows):
        layers.append(
            base.mark_area().encode(
                y=alt.Y("low:Q", scale=near),
                y2=alt.Y2("high:Q"),
                opacity=_seen(clickable, 0.13, 0.0),
            )
        )
    if goals:
        marks = alt.Chart(
            inline(
                {"mean": g, "text": f"target {100 * g:.4g}%" if share else f"target {g:.4g}"} for g in goals
            )
        )
        layers += [
            marks.mark_rule(color=MUTED, strokeDash=[2, 3]).encode(y=y),
            marks.mark_text(align="right", dy=-6, color=MUTED, fontSize=10).encode(
                y=y, x=x_at(width), text=alt.Text("text:N")
            ),
        ]
    layers.append(
        base.mark_line(strokeJoin="round", point=dots).encode(
            y=y, strokeDash=dash, opacity=_seen(clickable, 1.0, 0.08)
        )
    )
    return layered(*layers, width=width, height=height, title=title)


def _seen(clickable: bool, shown: float, hidden: float) -> Any:
    """An opacity that a click on the legend may take away."""
    if not clickable:
        return alt.OpacityValue(shown)
    return alt.OpacityValue(hidden, condition=[{"param": CHOICE["name"], "value": shown}])


def _points(row: Row, axis: Axis, measure: str | Reading) -> list[dict[str, Any]]:
    """A curve: at the rounds that all seeds have, the mean, lowest and highest value and the mean x."""
    seeds: list[dict[int, tuple[float, float]]] = []
    for run in row.group.counted:
        values = ((line, _value(line, measure), x) for line, x in zip(run.lines, axis.of(run), strict=True))
        seeds.append({int(line["round"]): (x, value) for line, value, x in values if value is not None})
    common = sorted(set.intersection(*(set(seed) for seed in seeds)))
    stride = max(1, -(-len(common) // MOST_POINTS))
    points = []
    for round in sorted({*common[::stride], *common[-1:]}):
        at = [seed[round] for seed in seeds]
        values_ = [value for _, value in at]
        points.append(
            {
                "label": row.group.label,
                "round": round,
                "x": _short(sum(x for x, _ in at) / len(at)),
                "mean": _short(sum(values_) / len(at)),
                "low": _short(min(values_)),
                "high": _short(max(values_)),
            }
        )
    return points


def _value(line: dict[str, Any], measure: str | Reading) -> float | None:
    return measure.of_line(line) if isinstance(measure, Reading) else number(line.get(measure))


def _short(value: float) -> float:
    """Six digits: more cannot be seen, and a page of many runs stays small."""
    return float(f"{value:.6g}")

"""DACA's figures 2, 3 and 6, of runs: loss by system EMD, methods over rounds, seconds against the volume shared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unskew.report.drawing import save_chart
from unskew.report.results.gather import ACCURACY, Record, gather
from unskew.report.theme import BLUE, GREEN, MUTED, ORANGE, PINK, RED, SKY
from unskew.reproduce.making import Row, Wanted

LOSS = "global_test_loss"
TARGETS = (0.8, 0.9, 0.95)
METHODS = {
    "FedAvg": MUTED,
    "central sharing": GREEN,
    "central sharing, v_th": SKY,
    "SCC": ORANGE,
    "CEC": RED,
    "DACA": BLUE,
    "DACA, join=gain (ours)": PINK,
}


def figure2(wanted: Wanted) -> list[Row]:
    """The smaller the system EMD, the lower the loss."""
    return [
        {
            "system EMD": f"{record.result['skew']['emd']:.2f}",
            "partition": f"`{record.spec.partition}`",
            "loss": f"{record.final[LOSS]:.3f}",
            "accuracy": f"{record.final[ACCURACY]:.2%}",
        }
        for record in _by_emd(wanted.runs)
    ]


def figure3(wanted: Wanted) -> list[Row]:
    """Loss and accuracy of every method, and what was shared."""
    rows: list[Row] = []
    for record in sorted(_judged(wanted.runs), key=lambda r: list(METHODS).index(named(r))):
        note = next((v for v in record.lines[0].values() if isinstance(v, dict) and "emd_after" in v), {})
        then = {line["round"]: f"{line[ACCURACY]:.2%}" for line in record.judged}
        rows.append(
            {
                "method": named(record),
                "seed": record.spec.seed,
                "system EMD": f"{note.get('emd_after') or record.result['skew']['emd']:.3f}",
                "after 40 rounds": then.get(40, "–"),
                "after 100": then.get(100, "–"),
                "final": f"{record.final[ACCURACY]:.2%}",
                "loss": f"{record.final[LOSS]:.3f}",
                **{f"rounds to {t:.0%}": str(record.first_round_at(t) or "–") for t in TARGETS},
            }
        )
    return rows


def figure6(wanted: Wanted) -> list[Row]:
    """Seconds on the air until each target is reached: sharing before round 1, and 0.7 s a round."""
    rows: list[Row] = []
    for record in sorted(_judged(wanted.runs), key=lambda r: (list(METHODS).index(named(r)), volume(r))):
        row: dict[str, Any] = {
            "method": named(record),
            "volume": round(volume(record), 2),
            "sharing, s": round((record.lines[0].get("air") or {}).get("samples", 0.0), 1),
        }
        for target in TARGETS[1:]:
            reached = record.first_round_at(target)
            spent = sum(line["air_s"] for line in record.lines[: reached or record.round])
            more = "" if reached else "over "  # the run ended before
            row[f"rounds to {target:.0%}"] = f"{more}{reached or record.round}"
            row[f"seconds to {target:.0%}"] = f"{more}{spent:.0f}"
        rows.append(row)
    return rows


def draw_figure2(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    import altair as alt

    records = _by_emd(runs)
    labels = [f"{record.result['skew']['emd']:.2f}" for record in records]
    values = [point for r, label in zip(records, labels, strict=True) for point in _curve(r, LOSS, label)]
    palette = [SKY, BLUE, GREEN, ORANGE, RED, PINK]
    colour = alt.Color("label:N").scale(domain=labels, range=palette[: len(labels)]).sort(labels)
    colour = colour.legend(title="system EMD", symbolType="stroke", symbolOpacity=1)
    y = alt.Y("y:Q").axis(title=None, format="~g", values=[0.02, 0.05, 0.1, 0.2, 0.5, 1, 2])
    y = y.scale(type="log", domain=[0.018, 4], nice=False)
    chart = _lines(values, "Test loss over rounds by system EMD", colour, y).properties(width=560)
    return save_chart(chart, picture, "Loss by system EMD")


def draw_figure3(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    import altair as alt

    records = _judged(runs)
    colour = _coloured([named(record) for record in records])
    legend: dict[str, Any] = {"symbolType": "stroke", "symbolOpacity": 1, "columns": 6, "labelLimit": 300}
    colour = colour.legend(title=None, orient="bottom", **legend)
    plain = alt.Y("y:Q").axis(title=None, format="~g", tickCount=6).scale(zero=False)
    percent = alt.Y("y:Q").axis(title=None, format="%", tickCount=6).scale(domain=[0.7, 1])
    both = [
        _lines([point for r in records for point in _curve(r, measure, named(r))], title, colour, y)
        for measure, title, y in ((LOSS, "Test loss", plain), (ACCURACY, "Test accuracy", percent))
    ]
    chart = alt.hconcat(*both, spacing=40).resolve_scale(color="shared")
    return save_chart(chart, picture, "DACA, figure 3")


def draw_figure6(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    """Of the rows alone: targets that were not reached have no point."""
    import altair as alt

    colour = _coloured([row["method"] for row in rows])
    panels = []
    for at, target in enumerate(TARGETS[1:]):
        name = f"seconds to {target:.0%}"
        points = [
            {"label": row["method"], "volume": row["volume"], "seconds": float(row[name])}
            for row in rows
            if not str(row[name]).startswith("over")
        ]
        base = alt.Chart(alt.InlineData(values=points), title=f"until {target:.0%} test accuracy").encode(
            x=alt.X("volume:Q").axis(title="samples shared, 1.0 = 600", grid=False).scale(domain=[0, 1]),
            y=alt.Y("seconds:Q").axis(title="seconds" if at == 0 else None, tickCount=5),
            color=colour.legend(title=None, orient="bottom", symbolType="stroke", symbolOpacity=1),
        )
        panels.append(base.mark_line(point=alt.OverlayMarkDef(size=50)).properties(width=340, height=260))
    title = alt.TitleParams("Total time against the volume shared", subtitle="sharing, then 0.7 s a round")
    chart = alt.hconcat(*panels, spacing=40, title=title).resolve_scale(color="shared", y="shared")
    return save_chart(chart, picture, "DACA, figure 6")


def named(record: Record) -> str:
    """A run's method as the paper calls it."""
    method = record.spec.method
    kinds = {
        "fedavg": "FedAvg",
        "central_sharing": "central sharing",
        "scc": "SCC",
        "cec": "CEC",
        "daca": "DACA",
    }
    name = kinds.get(method.partition("(")[0], method)
    if name == "central sharing" and "v_th" in method:
        return f"{name}, v_th"
    return name + (", join=gain (ours)" if "join=gain" in method else "")


def volume(record: Record) -> float:
    """How much a method shares, 1.0 being 600 samples of MNIST's 60,000."""
    method = record.spec.method
    if found := re.search(r"volume=(\d+)", method):
        return int(found[1]) / 600
    if found := re.search(r"central_sharing\((?:beta=)?([\d.]+)", method):
        return float(found[1]) * 100
    return 0.0


def _judged(runs: Path) -> list[Record]:
    return [record for record in gather([runs]) if record.judged]


def _by_emd(runs: Path) -> list[Record]:
    return sorted(_judged(runs), key=lambda record: float(record.result["skew"]["emd"]))


def _coloured(names: Sequence[str]) -> Any:
    import altair as alt

    present = [name for name in METHODS if name in names]
    return alt.Color("label:N").scale(domain=present, range=[METHODS[name] for name in present])


def _curve(record: Record, measure: str, label: str) -> list[dict[str, Any]]:
    stride = max(1, len(record.judged) // 300)
    kept = [line for at, line in enumerate(record.judged) if at % stride == 0 or line is record.judged[-1]]
    return [{"x": r["round"], "y": r[measure], "label": label} for r in kept if r[measure] is not None]


def _lines(values: list[dict[str, Any]], title: str, colour: Any, y: Any) -> Any:
    import altair as alt

    x = alt.X("x:Q").axis(title="round", grid=False, tickCount=6).scale(nice=False)
    chart = alt.Chart(alt.InlineData(values=values), title=title).mark_line(clip=True)
    return chart.encode(x=x, y=y, color=colour).properties(width=340, height=260)

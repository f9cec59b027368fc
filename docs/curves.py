"""Accuracy over rounds of some runs, for a method's page: ``python docs/curves.py NAME RUNS [WINDOW] [PART]``.

RUNS is a folder of run folders, as ``unskew sweep`` leaves them, or a file of results from ``docs/book/results``. A
line is a run; its colour says the method. With a WINDOW, lines are running means over that many evaluations, and what
was measured lies pale behind them. With a PART, such as ``sem``, every base method has a panel of its own: the base
alone and with that part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from unskew.report.drawing import save_chart
from unskew.report.results.gather import ACCURACY, gather
from unskew.report.theme import BLUE, GREEN, MUTED, ORANGE, PINK, RED

IMAGES = Path(__file__).parent / "img"


def curves(runs: Path) -> Iterator[tuple[str, int, list[int], list[float]]]:
    """Method, seed, judged rounds and their accuracies, one run after the other."""
    if runs.suffix == ".jsonl":
        for line in runs.read_text().splitlines():
            cell = json.loads(line)
            accuracies = cell["accuracy"]
            rounds = [cell["judged_every"] * (at + 1) for at in range(len(accuracies))]
            yield cell["method"], cell["seed"], rounds, accuracies
        return
    for record in gather([runs]):
        yield (
            record.spec.method,
            record.spec.seed,
            [line["round"] for line in record.judged],
            [line[ACCURACY] for line in record.judged],
        )


def base_of(method: str, part: str) -> str:
    """The method without the part: FedAvg where nothing else is left."""
    return "fedavg" if method == part else method.removesuffix(f"+{part}")


def main(name: str, runs: str, window: str = "1", part: str = "") -> None:
    width = int(window)
    rows: list[dict[str, Any]] = []
    for method, seed, rounds, values in curves(Path(runs)):
        base = base_of(method, part) if part else ""
        said = method if not part else "the base alone" if method == base else f"with {part}"
        for at, (number, value) in enumerate(zip(rounds, values, strict=True)):
            around = values[max(0, at - width // 2) : at + width // 2 + 1]
            mean = float(np.mean(around))
            rows.append({"round": number, "measured": value, "mean": mean, "method": said, "seed": seed})
            rows[-1]["base"] = base
    first = ("fedavg", "phase_shift(1)", "the base alone")
    methods = sorted({row["method"] for row in rows}, key=lambda m: (m not in first, m))
    colour = alt.Color("method:N").scale(
        domain=methods, range=[MUTED, BLUE, ORANGE, GREEN, RED, PINK][: len(methods)]
    )
    colour = colour.legend(title=None, orient="top", symbolType="stroke", symbolOpacity=1)
    ticks = 4 if part else 8
    drawn = alt.Chart().encode(
        x=alt.X("round:Q").axis(title="round", grid=False, tickCount=ticks).scale(nice=False),
        color=colour,
        detail="seed:N",
    )
    axis = alt.Axis(title=None, format="%", tickCount=6)
    means = drawn.mark_line().encode(y=alt.Y("mean:Q").axis(axis).scale(zero=False))
    layers = [means]
    if width > 1:
        pale = drawn.mark_line(opacity=0.25, strokeWidth=1)
        layers.insert(0, pale.encode(y=alt.Y("measured:Q").axis(axis)))
    chart = alt.layer(*layers, data=alt.InlineData(values=rows))
    title = "Global test accuracy"
    if part:
        bases = list(dict.fromkeys(row["base"] for row in rows))
        panels = alt.Facet("base:N").sort(bases).title(None)
        whole = chart.properties(width=220, height=170).facet(panels, columns=3).properties(title=title)
        whole = whole.resolve_axis(x="independent")  # shared, it would also be drawn under no panel
    else:
        whole = chart.properties(width=620, height=280, title=title)
    save_chart(whole, IMAGES / f"curves-{name}.png", f"Accuracy over rounds: {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])

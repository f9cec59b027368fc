"""Accuracy over rounds of some runs, for a method's page: ``python docs/curves.py NAME RUNS [WINDOW]``.

RUNS is a folder of run folders, as ``unskew sweep`` leaves them, or a file of results from ``docs/book/results``. A
line is a run; its colour says the method. With a WINDOW, lines are running means over that many evaluations, and what
was measured lies pale behind them.
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


def main(name: str, runs: str, window: int = 1) -> None:
    rows: list[dict[str, Any]] = []
    for method, seed, rounds, values in curves(Path(runs)):
        for at, (number, value) in enumerate(zip(rounds, values, strict=True)):
            around = values[max(0, at - window // 2) : at + window // 2 + 1]
            rows.append(
                {
                    "round": number,
                    "measured": value,
                    "mean": float(np.mean(around)),
                    "method": method,
                    "seed": seed,
                }
            )
    methods = sorted(
        {row["method"] for row in rows}, key=lambda m: (m not in ("fedavg", "phase_shift(1)"), m)
    )
    colour = alt.Color("method:N").scale(
        domain=methods, range=[MUTED, BLUE, ORANGE, GREEN, RED, PINK][: len(methods)]
    )
    colour = colour.legend(title=None, orient="top", symbolType="stroke", symbolOpacity=1)
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("round:Q").axis(title="round", grid=False, tickCount=8).scale(nice=False),
        color=colour,
        detail="seed:N",
    )
    axis = alt.Axis(title=None, format="%", tickCount=6)
    means = base.mark_line().encode(y=alt.Y("mean:Q").axis(axis).scale(zero=False))
    layers = [means]
    if window > 1:
        layers.insert(0, base.mark_line(opacity=0.25, strokeWidth=1).encode(y=alt.Y("measured:Q").axis(axis)))
    chart = alt.layer(*layers).properties(width=620, height=280, title="Global test accuracy")
    save_chart(chart, IMAGES / f"curves-{name}.png", f"Accuracy over rounds: {name}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *(int(n) for n in sys.argv[3:4]))

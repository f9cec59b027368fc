"""Is it a nine? What the losses of rare classes do where one sample in ten is of one: docs/methods/balanced.md."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.data import from_arrays, load
from unskew.reproduce.making import Row, Wanted
from unskew.runs.running import run


def make(wanted: Wanted) -> list[Row]:
    """Digits as nines and others, 20 clients by dirichlet(0.5), 10 a round: means over seeds."""
    digits = load("digits")
    nines = from_arrays(digits.x, digits.y == 9, digits.x_test, digits.y_test == 9, labels=("other", "nine"))
    settings: Any = {
        "partition": "dirichlet(0.5)",
        "clients": 20,
        "cohort": 10,
        "lr": 0.01,
        "progress": False,
    }
    settings |= {"rounds": wanted.rounds or 5, "dataset": nines}
    rare = float(np.mean(digits.y_test == 9))
    rows = []
    methods = ("fedavg", "balanced", "balanced(counts=global)")
    for method in methods[-1:] if wanted.quick else methods:
        seeds = (0,) if wanted.quick else wanted.seeds or (0, 1, 2)
        ended = [run(method=method, seed=seed, watch=wanted.watch, **settings).result for seed in seeds]
        scores = {
            name: 100 * float(np.mean([result["final"][name] for result in ended]))
            for name in ("accuracy", "balanced_accuracy")
        }
        # accuracy = rare x nines + (1 - rare) x others, balanced accuracy = (nines + others) / 2
        found = (2 * (1 - rare) * scores["balanced_accuracy"] - scores["accuracy"]) / (1 - 2 * rare)
        lost = sum(bool(result["no_better_than_most_frequent"]) for result in ended)
        rows.append(
            {
                "method": f"`{method}`",
                "accuracy": f"{scores['accuracy']:.1f}",
                "balanced accuracy": f"{scores['balanced_accuracy']:.1f}",
                "nines found": f"{max(found, 0):.0f}%",
                'no better than "never"': f"{lost} of {len(seeds)} seeds",
            }
        )
    return rows

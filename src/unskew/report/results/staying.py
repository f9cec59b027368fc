"""What clients get that stay on their own (local_only), read off a leaderboard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unskew.report.results.gather import ACCURACY, Record
from unskew.report.results.leaderboard import Row


def lower_bound(rows: Sequence[Row]) -> Row | None:
    """The row of the clients on their own, where there is one."""
    return next((row for row in rows if row.group.bound == "lower"), None)


def range_of(row: Row) -> tuple[float, float]:
    """The accuracy of the worst and of the best client on its own, over all seeds."""
    found = [run.final.get("own_models") or {} for run in row.group.counted]
    known = [(f["min"], f["max"]) for f in found if {"min", "max"} <= f.keys()]
    if not known:
        return row.final.mean, row.final.mean
    return min(low for low, _ in known), max(high for _, high in known)


def gaining(alone: Row, joined: Row) -> tuple[int, int]:
    """How many clients do better with the method than on their own, of how many, on the seeds that both have.

    Where seeds deal the same clients each counts once, by its means over seeds; else once a seed.
    """
    ends = {run.spec.seed: float(run.final[ACCURACY]) for run in joined.group.counted}
    runs = [run for run in alone.group.counted if run.spec.seed in ends and each_client(run)]
    gains = [[ends[run.spec.seed] - float(one["accuracy"]) for one in each_client(run)] for run in runs]
    names = {tuple(one["client"] for one in each_client(run)) for run in runs}
    natural = all(run.data.get("names") is not None for run in runs)
    if len(names) == 1 and natural:
        gains = [[sum(of_client) / len(gains) for of_client in zip(*gains, strict=True)]]
    every = [gain for of_run in gains for gain in of_run]
    return sum(gain > 1e-9 for gain in every), len(every)


def each_client(run: Record) -> list[dict[str, Any]]:
    """Every client's name and the accuracy of its own model, where the result lists them."""
    return list((run.result.get("own_models") or {}).get("each") or [])

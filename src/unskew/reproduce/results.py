"""Results: one line a run, kept as JSON lines; what a method gained, with its interval, and the verdict on a claim."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unskew.errors import InputError
from unskew.reproduce.exhibit import Cell, Exhibit, Group, Reading

Line = Mapping[str, Any]
State = Literal["holds", "in kind", "not", "ours", "not run"]

NONE_PRINTED, NO_DIFFERENCE = 0.1, 1.0
"""Points: a paper's difference below the first is none; ours within the second is none in kind."""


@dataclass(frozen=True)
class Gain:
    """What a method gained over its base, in points; ``half`` is half the 95% interval, of two seeds and more."""

    mean: float
    half: float | None
    seeds: int

    def reaches(self, value: float) -> bool:
        """Whether the interval holds a value, to the last digit that papers print."""
        return self.half is not None and abs(self.mean - value) <= self.half + 0.05

    def __str__(self) -> str:
        return f"{self.mean:+.1f}" + ("" if self.half is None else f" ± {self.half:.1f}")


def read_lines(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every line of a folder of results, by exhibit."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for number, text in enumerate(file.read_text("utf-8").splitlines(), 1):
            try:
                line = json.loads(text)
                found.setdefault(line["exhibit"], []).append(line)
            except (ValueError, KeyError, TypeError) as problem:
                raise InputError(f"{file}, line {number} is no result: {problem}") from None
    return found


def accuracy(line: Line, group: Group, reading: Reading | Literal["final"]) -> float | None:
    """A run's accuracy in per cent by a reading, from its curve where that was kept."""
    if curve := line.get("accuracy"):
        found = {"best": max(curve), "end": float(np.mean(curve[-group.tail :])), "final": curve[-1]}
        return 100 * float(found[reading])
    value = (line.get(reading) or {}).get("accuracy")
    return None if value is None else 100 * float(value)


def gain(cell: Cell, group: Group, lines: Iterable[Line], reading: Reading) -> Gain | None:
    """A method's gain over its base on the seeds that both have; None where one of them was not run.

    Where only means over seeds were kept, their difference: paired where that was told, else with the interval of seeds
    that are not paired, which is wider. Where a run has no mean of its end, both are compared by their last round.
    """
    here = {
        name: [line for line in lines if line["group"] == cell.group and line["method"] == name]
        for name in (cell.method, cell.over)
    }
    of_means = _gain_of_means(here[cell.method], here[cell.over], reading)
    if of_means is not None:
        return of_means
    for by in (reading, "final") if reading == "end" else (reading,):
        by_seed = {name: _by_seed(found, group, by) for name, found in here.items()}
        ours, theirs = by_seed[cell.method], by_seed[cell.over]
        apart = [ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())]
        if apart:
            sd = float(np.std(apart, ddof=1)) if len(apart) > 1 else 0.0
            return _spread(float(np.mean(apart)), sd, len(apart))
    return None


def _by_seed(lines: list[Line], group: Group, reading: Reading | Literal["final"]) -> dict[int, float]:
    """Accuracies by seed of the runs that came to their end."""
    whole = [line for line in lines if line.get("seed") is not None and not line.get("stopped_after")]
    found = {line["seed"]: accuracy(line, group, reading) for line in whole}
    return {seed: value for seed, value in found.items() if value is not None}


def _gain_of_means(ours: list[Line], theirs: list[Line], reading: Reading) -> Gain | None:
    """Of runs whose single seeds were not kept."""
    for line in (line for line in ours if line.get("seed") is None):
        if (told := (line.get("gain") or {}).get(reading)) is not None:
            return _spread(told["mean"], told["sd"], line["seeds"])
        for other in theirs:
            if other.get("seeds") == line["seeds"] and reading in line and reading in other:
                mine, base = line[reading], other[reading]
                return _spread(mine["mean"] - base["mean"], math.hypot(mine["sd"], base["sd"]), line["seeds"])
    return None


def _spread(mean: float, sd: float, seeds: int) -> Gain:
    half = _student(seeds - 1) * sd / math.sqrt(seeds) if seeds > 1 else None
    return Gain(round(mean, 4), half, seeds)


@cache
def _student(freedom: int) -> float:
    """Student's t between minus and plus which 95% lie, by halving; scipy takes a fifth of a second to load."""

    def between(t: float) -> float:
        """The share between -t and t, a finite sum for a whole number of degrees of freedom."""
        angle = math.atan(t / math.sqrt(freedom))
        odd, square = freedom % 2, math.cos(angle) ** 2
        term, total = 1.0, 0.0
        for k in range(odd, freedom - 1, 2):
            total += term
            term *= square * (k + 1) / (k + 2)
        if odd:
            return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * total)
        return math.sin(angle) * total

    low, high = 0.0, 20.0
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if between(middle) < 0.95 else (low, middle)
    return high


def verdict(cell: Cell, found: Gain | None) -> State:
    """holds: the same sign, and the interval reaches the paper's; in kind: the same sign; else not."""
    if found is None:
        return "not run"
    if cell.printed is None:
        return "ours"
    if abs(cell.printed) < NONE_PRINTED:
        alike = abs(found.mean) <= NO_DIFFERENCE
    else:
        alike = found.mean * cell.printed > 0
    if not alike:
        return "not"
    return "holds" if found.reaches(cell.printed) else "in kind"


@dataclass(frozen=True)
class Judged:
    """A cell with what we got: by the best round, and in the end; judged by the reading that the paper has."""

    cell: Cell
    group: Group
    best: Gain | None
    end: Gain | None
    verdict: State

    @property
    def told(self) -> Gain | None:
        return self.end or self.best


def judge(exhibit: Exhibit, lines: Sequence[Line]) -> list[Judged]:
    """Every cell of an exhibit."""
    judged = []
    for group in exhibit.groups:
        for cell in group.cells:
            best, end = (gain(cell, group, lines, reading) for reading in ("best", "end"))
            by = (best or end) if exhibit.read == "best" else (end or best)
            judged.append(Judged(cell, group, best, end, verdict(cell, by)))
    return judged


def only_rows(judged: Sequence[Judged]) -> bool:
    """Whether an exhibit is told by its rows: no gain is claimed, and none was kept."""
    return all(one.cell.printed is None and one.verdict == "not run" for one in judged)


def state(judged: Sequence[Judged], lines: Sequence[Line]) -> str:
    """An exhibit's state in words: of its cells, how many hold, are in kind, are not, were not run."""
    if not judged or (only_rows(judged) and any("row" in line for line in lines)):
        return "run, nothing to judge" if lines else "not run"
    counted = {
        name: sum(j.verdict == name for j in judged)
        for name in ("holds", "in kind", "not", "ours", "not run")
    }
    if counted["not run"] == len(judged):
        return "not run"
    words = {
        "holds": "reproduced",
        "in kind": "in kind",
        "not": "not",
        "ours": "of our own",
        "not run": "not run",
    }
    return ", ".join(f"{count} {words[name]}" for name, count in counted.items() if count)

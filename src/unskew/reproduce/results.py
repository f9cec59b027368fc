"""Results: one line a run, kept as JSON lines; what a method gained, with its interval, and the verdict on a claim."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from unskew.errors import InputError
from unskew.report.evidence import signed
from unskew.reproduce.exhibit import Cell, Exhibit, Group, Reading
from unskew.reproduce.line_settings import changed_settings, computed_on, say_changed
from unskew.runs.spec import Spec

Line = Mapping[str, Any]
State = Literal["holds", "in kind", "not", "ours", "not run"]
STATES: tuple[State, ...] = get_args(State)

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
        return signed(self.mean) + ("" if self.half is None else f" ± {self.half:.1f}")


def read_lines(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every line of a folder of results, by exhibit."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(folder.glob("*.jsonl")):
        for line in read_results(file):
            found.setdefault(line["exhibit"], []).append(line)
    return found


def read_results(file: Path) -> list[dict[str, Any]]:
    """The lines of a file of results; one that is damaged is named, so that no other is lost for it."""
    lines = []
    for number, text in enumerate(file.read_bytes().splitlines(), 1):
        try:
            lines.append(_checked(json.loads(text)))
        except (ValueError, InputError) as problem:
            raise InputError(
                f"{file}, line {number} is no result ({problem}); mend that line or take it out"
            ) from None
    return lines


def _checked(line: Any) -> dict[str, Any]:
    """A line that has what is read off lines."""
    if not isinstance(line, dict):
        raise InputError("it is no JSON object")
    for name in ("exhibit", "group", "method"):
        if not isinstance(line.get(name), str):
            raise InputError(f"it has no {name!r}")
    setting = line.get("setting", {})
    if not isinstance(setting, dict):
        raise InputError("its 'setting' is no JSON object")
    if "row" in line:
        if not isinstance(line["row"], dict):
            raise InputError("its 'row' is no JSON object")
        return line
    Spec.of(setting)
    if not isinstance(line.get("seed"), int | None):
        raise InputError("its 'seed' is no number")
    curve = line.get("accuracy", [])
    if not isinstance(curve, list) or not all(map(_is_number, curve)):
        raise InputError("its 'accuracy' is no list of numbers")
    for reading in ("best", "end", "final"):
        told = line.get(reading) or {}
        if not isinstance(told, dict) or not all(_is_number(value) for value in told.values()):
            raise InputError(f"its {reading!r} has no numbers")
    return line


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def accuracy(line: Line, group: Group, reading: Reading | Literal["final"]) -> float | None:
    """A run's accuracy in per cent by a reading, from its curve where that was kept."""
    if curve := line.get("accuracy"):
        found = {"best": max(curve), "end": float(np.mean(curve[-group.tail :])), "final": curve[-1]}
        return 100 * float(found[reading])
    value = (line.get(reading) or {}).get("accuracy")
    return None if value is None else 100 * float(value)


def runs_alike(lines: Iterable[Line], group: Group) -> list[tuple[dict[str, Any], list[Line]]]:
    """Lines of a group by what was changed in their settings: those with the exhibit's own first.

    Only lines of one such list may be compared or averaged.
    """
    found: list[tuple[dict[str, Any], list[Line]]] = [({}, [])]
    for line in lines:
        changed = changed_settings(line, group)
        alike = next((some for known, some in found if known == changed), None)
        if alike is None:
            found.append((changed, alike := []))
        alike.append(line)
    return [(changed, some) for changed, some in found if some]


def gain(cell: Cell, group: Group, lines: Iterable[Line], reading: Reading) -> Gain | None:
    """A method's gain over its base on the seeds that both have; None where one of them was not run.

    Where only means over seeds were kept, their difference: paired where that was told, else with the interval of seeds
    that are not paired, which is wider. Where a run has no mean of its end, both are compared by their last round.
    """
    alike = (_gain_of_alike(cell, group, some, reading) for _, some in _runs_of_cell(cell, group, lines))
    return next((found for found in alike if found is not None), None)


def _runs_of_cell(cell: Cell, group: Group, lines: Iterable[Line]) -> list[tuple[dict[str, Any], list[Line]]]:
    """The lines of a cell's method and of its base, those with equal settings together."""
    both = (cell.method, cell.over)
    return runs_alike(
        (line for line in lines if line["group"] == cell.group and line["method"] in both), group
    )


def _gain_of_alike(cell: Cell, group: Group, lines: Sequence[Line], reading: Reading) -> Gain | None:
    here = {name: [line for line in lines if line["method"] == name] for name in (cell.method, cell.over)}
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
    verdict: str  # a State; of runs with other settings than the exhibit's, which nobody judges, what differs
    machines: tuple[str, ...] = ()  # what the runs were computed on

    @property
    def told(self) -> Gain | None:
        return self.end or self.best


def judge(exhibit: Exhibit, lines: Sequence[Line]) -> list[Judged]:
    """Every cell of an exhibit."""
    return [_judged(exhibit, group, cell, lines) for group in exhibit.groups for cell in group.cells]


def _judged(exhibit: Exhibit, group: Group, cell: Cell, lines: Sequence[Line]) -> Judged:
    for changed, alike in _runs_of_cell(cell, group, lines):
        best, end = (_gain_of_alike(cell, group, alike, reading) for reading in ("best", "end"))
        by = (best or end) if exhibit.read == "best" else (end or best)
        if by is not None:
            said = say_changed(changed, group, cell.method) if changed else verdict(cell, by)
            return Judged(cell, group, best, end, said, tuple(dict.fromkeys(map(computed_on, alike))))
    return Judged(cell, group, None, None, verdict(cell, None))


def only_rows(judged: Sequence[Judged]) -> bool:
    """Whether an exhibit is told by its rows: no gain is claimed, and none was kept."""
    return all(one.cell.printed is None and one.verdict == "not run" for one in judged)


def state(judged: Sequence[Judged], lines: Sequence[Line]) -> str:
    """An exhibit's state in words: of its cells, how many hold, are in kind, are not, were not judged or not run."""
    if not judged or (only_rows(judged) and any("row" in line for line in lines)):
        return "run, nothing to judge" if lines else "not run"
    words = {
        "holds": "reproduced",
        "in kind": "in kind",
        "not": "not",
        "ours": "of our own",
        "other settings": "with other settings",
        "not run": "not run",
    }
    found = [j.verdict if j.verdict in STATES else "other settings" for j in judged]
    if found.count("not run") == len(judged):
        return "not run"
    return ", ".join(f"{count} {said}" for name, said in words.items() if (count := found.count(name)))

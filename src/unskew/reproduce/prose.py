"""Numbers in the prose of a page: what stands before a source, ``97.7%<!-- = SOURCE -->``, is made of the results.

A source is a path and a reading:

- ``exhibit/group/method best`` (or ``end``, ``final``, ``round 40``): accuracy in per cent, the mean over seeds;
- ``exhibit/group/method gain best`` (or ``gain end``): points over its base, or below it (``loss end``);
- ``exhibit/group/method paper`` (or ``paper gain``): what the paper prints;
- ``exhibit/cell/cell column``: a cell of an exhibit's rows, found by the cells that its row begins with.

``seed 0`` at the end takes that seed alone, ``seeds 3`` a mean over three that were not kept one by one. Decimals
stay as they are written, and so does whether there is a sign. Where ``±`` is written, what follows it is made too: the
standard deviation of accuracies, half the interval of gains.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np

from unskew.errors import InputError
from unskew.reproduce.exhibit import Exhibit, Group, exhibit_of
from unskew.reproduce.making import rows_of
from unskew.reproduce.results import Line, accuracy, gain, runs_alike

MARKED = re.compile(
    r"(?P<number>[+-]?\d+(?:\.\d+)?)(?: ± (?P<spread>\d+(?:\.\d+)?))?(?P<unit>%| points?|)"
    r"<!-- = (?P<source>[^>\n]+?) -->"
)
ALONE = re.compile(r" (seeds?) (\d+)$")
Number = tuple[float, float | None]
"""A number, and how far it spreads over seeds where that is known."""


def fill_numbers(text: str, lines: Mapping[str, Sequence[Line]]) -> str:
    """The page with every number that a source follows made anew."""

    def made(match: re.Match[str]) -> str:
        written, source = match["number"], match["source"]
        value, spread = number_of(source, lines)
        if value < 0 and written[0] not in "+-" and round(value, _decimals(written)):
            raise InputError(f"{source!r} is {value:+.1f}, below 0: write its sign, or `loss` for `gain`")
        digits = _decimals(written)
        said = f"{value:+z.{digits}f}" if written[0] in "+-" else f"{abs(value):.{digits}f}"  # no -0.0
        if match["spread"] is not None:
            if spread is None:
                raise InputError(
                    f"{source!r} has no spread: leave out what follows the number, or name seeds"
                )
            said += f" ± {spread:.{_decimals(match['spread'])}f}"
        return f"{said}{match['unit']}<!-- = {source} -->"

    return MARKED.sub(made, text)


def number_of(source: str, lines: Mapping[str, Sequence[Line]]) -> Number:
    """What a source gives, or one sentence where it gives nothing."""
    alone = ALONE.search(source)
    exhibit = exhibit_of(source.partition("/")[0])
    there = [
        one for one in lines.get(exhibit.name, ()) if alone is None or one.get(alone[1]) == int(alone[2])
    ]
    words = (source[: alone.start()] if alone else source).split(" ")
    for at in range(1, len(words)):  # methods and cells have spaces of their own
        path, reading = " ".join(words[:at]).split("/")[1:], " ".join(words[at:])
        if path and (found := _of_runs(exhibit, path, reading, there) or _of_rows(path, reading, there)):
            return found
    raise InputError(
        f"no line of results gives the number of {source!r}: write exhibit/group/method and best, end, final, "
        "round 40, gain end, loss end or paper, or exhibit/cell and a column of its rows"
    )


def _decimals(written: str) -> int:
    return len(written.partition(".")[2])


def _of_runs(exhibit: Exhibit, path: Sequence[str], reading: str, lines: Sequence[Line]) -> Number | None:
    group = next((g for g in exhibit.groups if path[0] == g.name), None)
    method = path[-1]
    if group is None or len(path) != 2 or method not in group.methods:
        return None
    if reading.startswith("paper"):
        printed = group.printed(method) if reading == "paper gain" else group.accuracy.get(method)
        return None if printed is None else (printed, None)
    if reading in ("gain best", "gain end", "loss best", "loss end"):
        cell = next(cell for cell in group.cells if cell.method == method)
        got = gain(cell, group, lines, "best" if reading.endswith("best") else "end")
        return None if got is None else (-got.mean if reading.startswith("loss") else got.mean, got.half)
    here = [one for one in lines if one["group"] == group.name and one["method"] == method]
    here = [one for one in here if not one.get("stopped_after")]
    for _, alike in runs_alike(here, group):
        for one in alike:
            if one.get("seed") is None and reading in one:  # of seeds that were not kept
                return one[reading]["mean"], one[reading]["sd"]
        values = [value for one in alike if (value := _read(one, group, reading)) is not None]
        if values:
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            return float(np.mean(values)), spread
    return None


def _read(line: Line, group: Group, reading: str) -> float | None:
    """A run's accuracy in per cent."""
    if reading.startswith("round "):
        at = reading.removeprefix("round ")
        if at in line.get("after_round", {}):  # all that was kept of a curve
            return float(line["after_round"][at])
        every, curve = line.get("judged_every", 1), line.get("accuracy") or []
        judged = dict(zip(range(every, every * len(curve) + 1, every), curve, strict=True))
        return 100 * judged[int(at)] if int(at) in judged else None
    return accuracy(line, group, reading) if reading in ("best", "end", "final") else None  # type: ignore[arg-type]


def _of_rows(path: Sequence[str], column: str, lines: Sequence[Line]) -> Number | None:
    """The first number of a cell."""
    for row in rows_of(lines):
        first = [str(cell).strip("`") for cell in row.values()][: len(path)]
        if first == list(path) and (number := re.match(r"[+-]?\d+(\.\d+)?", str(row.get(column, "")))):
            return float(number[0]), None
    return None

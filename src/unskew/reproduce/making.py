"""Exhibits that are not judged by gains alone: a function of their own makes rows, and draws a picture of them.

``makes`` of an exhibit's file is a function from ``Wanted`` to rows, ``draws`` one from rows and the folder of runs
to a picture. Rows are flat: a name and a value a column. They are kept as lines of results, as runs are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.import_object import import_object
from unskew.reproduce.exhibit import Exhibit
from unskew.runs.watchers import Watch
from unskew.version import __version__

Row = dict[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What an exhibit's own function is asked for."""

    runs: Path  # the exhibit's folder, with its runs where it is made of some
    seeds: tuple[int, ...] = ()  # none: the exhibit's own
    rounds: int | None = None
    data_folder: str | None = None
    quick: bool = False  # the smallest that still does everything
    options: Mapping[str, Any] = field(default_factory=dict)  # as the exhibit's file has them
    watch: Watch = ()  # of the runs that the function itself makes


def make_rows(exhibit: Exhibit, wanted: Wanted) -> list[dict[str, Any]]:
    """Lines of results, one a row."""
    began = time.perf_counter()
    rows: list[Row] = import_object(exhibit.makes, "exhibit")(wanted)
    took = round(time.perf_counter() - began, 1)
    kept = {"version": __version__, "device": "cpu", "seconds": took, "origin": "the exhibit's own function"}
    return [{"exhibit": exhibit.name, "group": "", "method": "", "row": row, **kept} for row in rows]


def rows_of(lines: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows among lines of results."""
    return [line["row"] for line in lines if "row" in line]


def draw_rows(exhibit: Exhibit, rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    """The picture of an exhibit that has a drawing of its own."""
    if not rows:
        raise InputError(f"nothing was found of {exhibit.name} yet; run it first, without --show")
    drawn: Path = import_object(exhibit.draws, "exhibit")(rows, runs, picture)
    return drawn


def table_of(exhibit: Exhibit, rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Head and cells in words: a column a name, or one variable laid out across where the file has a ``table``."""
    if not rows:
        return [], []
    if not exhibit.table:
        head = list(dict.fromkeys(name for row in rows for name in row))
        return head, [[_said(row.get(name)) for name in head] for row in rows]
    by, across, at, cell = (exhibit.table[key] for key in ("by", "across", "at", "cell"))
    found: dict[tuple[str, ...], dict[Any, str]] = {}
    for row in rows:
        found.setdefault(tuple(_said(row[name]) for name in by), {})[row[across]] = cell.format(**row)
    head = [*by, *(f"{across} {value:g}" for value in at)]
    return head, [[*names, *(cells.get(value, "") for value in at)] for names, cells in found.items()]


def _said(value: Any) -> str:
    return "" if value is None else str(value)


def as_markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table of a page; columns of numbers stand right."""
    lines = [f"| {' | '.join(head)} |"]
    numbers = [all(row[at][:1] in "+-0123456789" for row in cells) for at in range(len(head))]
    lines.append("|" + "".join("--:|" if number else "---|" for number in numbers))
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in cells)])

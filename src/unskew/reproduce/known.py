"""What is known of an exhibit: the lines of the book and those of runs made here, never mixed in one cell."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from unskew.reproduce.exhibit import Exhibit, Group, chosen_groups
from unskew.reproduce.results import Judged, judge
from unskew.reproduce.running import read_kept
from unskew.reproduce.shipped import shipped_lines
from unskew.runs.sweep import Cell as Run

Source = Literal["here", "the book", ""]


@dataclass(frozen=True)
class Known:
    """An exhibit, the folder of its runs here, the cells that were asked for, and the runs that have just failed."""

    exhibit: Exhibit
    place: Path
    cells: list[str]
    failed: list[tuple[str, Run]] = field(default_factory=list)  # each with the name of its group

    def __post_init__(self) -> None:
        self.chosen()  # what cannot be chosen or read is refused before anything is run
        self.lines_here()

    def chosen(self) -> list[tuple[Group, tuple[str, ...]]]:
        """The groups that were asked for, each with its methods."""
        return list(chosen_groups(self.exhibit, self.cells))

    def lines_here(self) -> list[dict[str, Any]]:
        """The lines of runs that were made here."""
        return read_kept(self.place, self.exhibit.name)

    def judged(self) -> list[tuple[Judged, Source]]:
        """Every cell that was asked for, and whose runs tell it: those made here, where both methods were, else the
        book's; a cell whose run has failed is told by nobody."""
        failed = {(group, run.spec.method) for group, run in self.failed}
        found: list[tuple[Judged, Source]] = []
        by_the_book = judge(self.exhibit, shipped_lines(self.exhibit.name))
        for ours, books in zip(judge(self.exhibit, self.lines_here()), by_the_book, strict=True):
            cell = ours.cell
            if self.cells and not {cell.group, cell.method, cell.name} & set(self.cells):
                continue
            if ours.told is not None:
                found.append((ours, "here"))
            elif failed & {(cell.group, cell.method), (cell.group, cell.over)}:
                found.append((replace(ours, verdict="failed"), "here"))
            else:
                found.append((books, "" if books.told is None else "the book"))
        return found

    def row_lines(self) -> list[dict[str, Any]]:
        """Lines of rows: those made here, else the book's; not the book's where runs failed."""
        here = [line for line in self.lines_here() if "row" in line]
        book = [] if self.failed else shipped_lines(self.exhibit.name)
        return here or [line for line in book if "row" in line]

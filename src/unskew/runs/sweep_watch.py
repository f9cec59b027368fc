"""Watchers of a sweep: told in the sweep's own process what its runs, which are others, have logged.

A run's folder is what they are told from: so it works with any number of runs at a time, and wherever they run. What a
watcher asks for goes the other way by a file that the run looks for (``unskew.runs.cell_file``).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, Protocol

from unskew.errors import InputError
from unskew.runs.folder import read_folder
from unskew.runs.watchers import Ended, RoundEnded, Started, Stopped, Watch, Watchers, check_watchers


class Watched(Protocol):
    """What is looked at of a cell."""

    folder: Path
    status: str
    error: str
    known: int  # rounds that were played before
    played: int

    @property
    def result(self) -> dict[str, Any]: ...

    @property
    def begun(self) -> bool: ...


def check_watch(watch: Any) -> None:
    """Refuse what is no function of a cell."""
    if watch is not None and not callable(watch):
        raise InputError(
            "watch of a sweep is a function that gives a cell its watchers, such as watch=lambda cell: "
            f"TheClass(cell.name), not a {type(watch).__name__}"
        )


def watchers_of(watch: Callable[[Any], Watch], cell: Watched) -> Watch:
    """What the user's function gives for a cell; one sentence where it fails."""
    try:
        return watch(cell)
    except Exception as error:
        raise InputError(
            f"watch of the sweep failed for the cell {cell.folder.name} ({type(error).__name__}: {error}); what was "
            "run is kept, and the same sweep goes on with the rest"
        ) from error


class CellWatch:
    """The watchers of one run of a sweep."""

    def __init__(self, cell: Watched, watch: Watch, ask: Callable[[str, str], None]):
        self.cell, self.told, self.started = cell, cell.known, False
        self.watchers = Watchers((), check_watchers(watch))
        self._ask = ask

    def ask(self, reason: str) -> None:
        """A watcher asks for the run's end; the first counts."""
        before = self.watchers.asked
        self.watchers.ask(reason)
        if before is None and self.watchers.asked is not None:
            self._ask(*self.watchers.asked)

    def look(self) -> None:
        """Tell what has been logged since the last look."""
        if not self.cell.begun or (self.started and self.cell.played <= self.told):
            return
        try:
            folder, spec, about = read_folder(self.cell.folder)
        except InputError:  # it is being written, or will be said to have failed
            return
        if not self.started:
            self.started = True
            before = folder.lines[: self.cell.known]
            start = Started(spec, about, self.cell.folder, spec.rounds, len(before), before, self.ask)
            self.watchers.tell("started", start)
        for line in folder.lines[self.told :]:
            ended = RoundEnded(line["round"], spec.rounds, line, self.ask, _no_model, None)  # type: ignore[arg-type]
            self.watchers.tell("round_ended", ended)
            if ended.evaluated:
                self.watchers.tell("evaluated", ended)
        self.told = max(self.told, len(folder.lines))

    def end(self) -> None:
        """Tell what is left to tell, and how it ended."""
        self.look()
        status, result = self.cell.status, self.cell.result if self.cell.status == "done" else {}
        stopped = Stopped.read(result.get("stopped"))
        how = "interrupted" if status == "stopped" else status
        told = "" if stopped is None else str(stopped)
        self.watchers.tell("ended", Ended(how, self.told, result, told, self.cell.error))  # type: ignore[arg-type]


def _no_model() -> NoReturn:
    raise InputError(
        "a sweep's runs are processes of their own, and the model is there; for that of round 3 write keep = 3, and "
        "load it with unskew.load_run(cell.folder).model_of(3)"
    )

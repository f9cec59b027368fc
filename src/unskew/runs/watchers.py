"""Watchers: objects that a run tells what happens, and that may ask for its end.

A watcher has any of four methods. Each is handed one record, which is what stays the same from version to version:

    started(start: Started)          the run begins, or goes on
    round_ended(round: RoundEnded)   a round is over and in the log
    evaluated(round: RoundEnded)     its model was judged, too
    ended(end: Ended)                the run is done, failed or interrupted

A watcher looks on. What it is handed are copies, so the log stays exact whatever it does; an error of its own is
reported once, it is told nothing more, and the run goes on to the same numbers. Ctrl-C passes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from unskew.errors import InputError
from unskew.notices import warn
from unskew.runs.spec import Spec

if TYPE_CHECKING:
    from unskew.core.state import State  # a report reads why runs ended, and needs no torch for that
    from unskew.models.trained import TrainedModel

Ask = Callable[[str], None]
VERBS = ("started", "round_ended", "evaluated", "ended")


@dataclass(frozen=True)
class Started:
    """A run begins, or goes on.

    - ``spec``: every setting of the run.
    - ``data``: what its folder says of its data and model: ``name``, ``labels``, ``clients``, ``samples``,
      ``parameters`` and more.
    - ``folder``: where it is written; None where it stays in memory.
    - ``rounds``: how many rounds are planned. ``played``: how many were played before, in a run that goes on.
    - ``log``: the lines of the rounds that were played before.
    """

    spec: Spec
    data: Mapping[str, Any]
    folder: Path | None
    rounds: int
    played: int
    log: Sequence[Mapping[str, Any]]
    _ask: Ask = field(repr=False)

    def stop(self, reason: str) -> None:
        """Ask the run to end after the first round that it has, which may be one of those played before."""
        self._ask(reason)


@dataclass(frozen=True)
class RoundEnded:
    """A round is over, and in the log.

    - ``round``: its number; the first is 1. ``of``: how many are planned.
    - ``line``: its line in the log: costs, who answered, and the metrics where it was evaluated.
    """

    round: int
    of: int
    line: Mapping[str, Any]
    _ask: Ask = field(repr=False)
    _model: Callable[[], TrainedModel] = field(repr=False)
    _state: State = field(repr=False)

    @property
    def evaluated(self) -> bool:
        """Whether its model was judged."""
        return "global_test_accuracy" in self.line

    def stop(self, reason: str) -> None:
        """Ask the run to end here; the reason, a few words, stands in its result and reports."""
        self._ask(reason)

    def model(self) -> TrainedModel:
        """A copy of the global model as it is now, not calibrated: it takes raw inputs."""
        return self._model()


@dataclass(frozen=True)
class Ended:
    """A run is over.

    - ``status``: done, failed or interrupted.
    - ``rounds``: how many were played.
    - ``result``: the content of ``result.json``; of a run that is not done there is none.
    - ``stopped``: why a run that is done ended before its last round, in words, and after which; "" where it did not.
    - ``error``: why it failed; "" where it did not.
    """

    status: Literal["done", "failed", "interrupted"]
    rounds: int
    result: Mapping[str, Any] = field(default_factory=dict)
    stopped: str = ""
    error: str = ""


Watch = Any | Sequence[Any]
"""A watcher or several: objects with any of the methods of ``Watcher``."""

Event = Started | RoundEnded | Ended


@runtime_checkable
class Watcher(Protocol):
    """What a run tells; a watcher may have any of these and need not be derived from this."""

    def started(self, start: Started) -> None:
        """The run begins, or goes on."""
        return

    def round_ended(self, round: RoundEnded) -> None:
        """A round is over and in the log."""
        return

    def evaluated(self, round: RoundEnded) -> None:
        """Its model was judged; once more where a run that stops early has to be judged as one that ends."""
        return

    def ended(self, end: Ended) -> None:
        """The run is done, failed or interrupted."""
        return


@dataclass(frozen=True)
class Stopped:
    """Why a run ends before its last round: as a result has it."""

    reason: str
    by: str  # stop, patience, budget, or the class of a watcher of one's own
    round: int  # after which it was asked
    rounds: int  # that were played: one more where a schedule has to collect what is still out
    of: int  # that were planned

    def __str__(self) -> str:
        more = f"; round {self.rounds} collected what was still out" if self.rounds > self.round else ""
        return f"{self.reason} at round {self.round} of {self.of}{more}"

    def as_dict(self) -> dict[str, Any]:
        return {"said": str(self), **vars(self)}

    @staticmethod
    def read(told: Mapping[str, Any] | None) -> Stopped | None:
        """What a result tells; None where it tells of no stop."""
        if not told:
            return None
        return Stopped(
            str(told["reason"]), str(told["by"]), int(told["round"]), int(told["rounds"]), int(told["of"])
        )


def check_watchers(watch: Any) -> list[Any]:
    """What was given as ``watch``, as a list; what is no watcher is refused."""
    if watch is None:
        return []
    given = list(watch) if isinstance(watch, (list, tuple)) else [watch]
    for one in given:
        if isinstance(one, type):
            raise InputError(f"watch takes objects, not classes; write {one.__name__}() for {one.__name__}")
        if not any(callable(getattr(one, verb, None)) for verb in VERBS):
            raise InputError(
                f"{_name(one)} cannot watch a run: it has none of the methods {', '.join(VERBS)}; write a class with "
                "one, such as def round_ended(self, round), and give watch=[TheClass()]"
            )
    return given


class Watchers:
    """All that are told of a run: its own, whose errors are the run's, and those that look on, whose are not."""

    def __init__(self, own: Sequence[Any], onlookers: Sequence[Any]):
        self.own, self.onlookers = tuple(own), list(onlookers)
        self.asked: tuple[str, str] | None = None  # why to end, and who asked first
        self._telling = ""

    def ask(self, reason: str) -> None:
        """Somebody asks for the end."""
        if not isinstance(reason, str) or not reason.strip():
            raise InputError(f"stop takes a reason, a few words that reports show, not {reason!r}")
        self.asked = self.asked or (" ".join(reason.split()), self._telling)

    def tell(self, verb: str, event: Event) -> None:
        """Tell all who want to hear of it, in their order."""
        for one in self.own:
            self._call(one, verb, event)
        for one in tuple(self.onlookers):
            hears = callable(getattr(one, verb, None)) and not getattr(one, "_trusted", False)
            try:
                self._call(one, verb, copied(event) if hears else event)
            except Exception as problem:
                self.onlookers = [other for other in self.onlookers if other is not one]
                warn(
                    f"the watcher {_name(one)} failed in {verb} and is told nothing more; the run goes on "
                    f"({type(problem).__name__}: {problem})",
                    stacklevel=3,
                )

    def _call(self, one: Any, verb: str, event: Event) -> None:
        method = getattr(one, verb, None)
        if callable(method):
            self._telling = _name(one)
            method(event)


def copied(event: Event) -> Event:
    """The record with contents of its own: nobody can change the log by it."""
    if isinstance(event, Started):
        return replace(event, data=copy.deepcopy(event.data), log=copy.deepcopy(event.log))
    if isinstance(event, RoundEnded):
        return replace(event, line=copy.deepcopy(event.line))
    return replace(event, result=copy.deepcopy(event.result))


def _name(one: Any) -> str:
    return str(getattr(one, "_called", None) or getattr(one, "__qualname__", type(one).__qualname__))

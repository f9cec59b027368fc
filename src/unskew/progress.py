"""A bar with the accuracy and the time left on a terminal or in a notebook; plain lines elsewhere.

``working`` is the same for any other work that may take long: nothing is shown of what is over in a moment, and within
a run it stands below the run's own bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from unskew.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.progress import Progress as RichProgress

MOMENT = 2.0
"""Seconds after which work that goes on says so on a terminal; elsewhere it takes longer."""

LINE = 10.0
"""Seconds after which a plain line says so; the next comes when a third of that time has passed again."""


class Progress(Protocol):
    """What a run tells: it begins, it has played a round, it ends."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def advance(self, line: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class ShownWork:
    """The number that is told of a round: what it is called, and where a line of the log has it."""

    title: str = "accuracy"
    key: str = "global_test_accuracy"

    def of(self, line: Mapping[str, Any]) -> str:
        """accuracy 0.8231; nothing where the round was not judged by it."""
        value = line.get(self.key)
        return "" if value is None else f"{self.title} {value:.4f}"


class Silent:
    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def advance(self, line: dict[str, Any]) -> None:
        pass


class Lines(Silent):
    """One line about every tenth of the run, and one a minute at least, for logs and pipes."""

    def __init__(self, method: str, rounds: int, done: int, shown: ShownWork = ShownWork()):
        self.shown = shown
        self.method, self.rounds, self.first, self.began = method, rounds, done, time.monotonic()
        self.said = self.began

    def advance(self, line: dict[str, Any]) -> None:
        n, of, now = line["round"], self.rounds, time.monotonic()
        if n == of or n * 10 // of != (n - 1) * 10 // of or now - self.said >= 60:
            self.said = now
            left = (now - self.began) / max(1, n - self.first) * (of - n)
            value = self.shown.of(line)
            _say(f"{self.method}: round {n}/{of}, {value + ', ' if value else ''}{duration(left)} left")

    def stopped(self, why: str) -> None:
        """Say that the run ends early, and why."""
        _say(f"{self.method}: stopped: {why}")


class Bar:
    """A Rich progress bar on stderr."""

    def __init__(self, label: str, rounds: int, done: int, shown: ShownWork = ShownWork()):
        self.shown = shown
        self.bar = make_bar()
        self.task = self.bar.add_task(label, total=rounds, completed=done, said="")

    def __enter__(self) -> Bar:
        self.bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.__exit__(kind, value, trace)

    def advance(self, line: dict[str, Any]) -> None:
        if value := self.shown.of(line):
            self.bar.update(self.task, said=value)
        self.bar.update(self.task, completed=line["round"])

    def stopped(self, why: str) -> None:
        """Say that the run ends early, and why: the bar is full at what was played."""
        self.bar.update(self.task, total=self.bar.tasks[self.task].completed, said=f"stopped: {why}")


def make_bar(transient: bool = False, left: bool = True, in_bytes: bool = False) -> RichProgress:
    """The one bar: what, how far, what is to say, how long it has taken and, unless that is said, how long it will."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}", style="bold", markup=False),  # methods may hold brackets
        BarColumn(),
        *((DownloadColumn(), TransferSpeedColumn()) if in_bytes else (MofNCompleteColumn(),)),
        TextColumn("{task.fields[said]}", markup=False),
        TimeElapsedColumn(),
        *((TextColumn("[dim]left[/]"), TimeRemainingColumn()) if left else ()),
        console=Console(stderr=True),
        transient=transient,
    )


def duration(seconds: float) -> str:
    """A time in words: 40 s, 5 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


_voice: ContextVar[object] = ContextVar("_voice", default=True)


@contextmanager
def voice(speaks: object) -> Iterator[None]:
    """Within, ``working`` speaks (True), is silent (False), or adds to this run's bar or lines."""
    now = _voice.get()
    before = _voice.set(speaks if now is True or isinstance(now, Bar | Lines) else now)
    try:
        yield
    finally:
        _voice.reset(before)


@contextmanager
def working(
    what: str, total: int | None = None, *, in_bytes: bool = False, at_once: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show on stderr how far long work is: call what is given with each further amount that is done.

    ``at_once``: it is known to take long, or is something that a user should know of, and so is told as it begins.
    """
    told = _told(Work(what, total, in_bytes, at_once))
    run = _voice.get()
    # work within work is silent, but for a run's bar
    before = _voice.set(run if isinstance(run, Bar) else told)
    try:
        yield told.advance
    finally:
        _voice.reset(before)
        told.end()


@dataclass(frozen=True)
class Work:
    """What is to be told of long work."""

    what: str
    total: int | None
    in_bytes: bool = False
    at_once: bool = False

    def amount(self, done: int) -> str:
        return f"{done / 1e6:,.1f} MB" if self.in_bytes else f"{done:,}"


def _told(work: Work) -> Quiet:
    speaks = _voice.get()
    if isinstance(speaks, Bar):
        return Drawn(work, speaks.bar)
    if isinstance(speaks, Lines):
        return Written(work)
    if speaks is not True:
        return Quiet()
    return Drawn(work, None) if is_terminal() else Written(work)


class Quiet:
    """Work that nobody wants to hear of."""

    def advance(self, amount: int = 1) -> None:
        pass

    def end(self) -> None:
        pass


class Written(Quiet):
    """Plain lines about long work, fewer and fewer."""

    def __init__(self, work: Work):
        self.work, self.done = work, 0
        self.began = time.monotonic()
        self.next = LINE
        if work.at_once:
            _say(work.what)

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        taken, work = time.monotonic() - self.began, self.work
        if taken < self.next or self.done == work.total:
            return
        self.next = taken + max(LINE, taken / 3)
        if work.total is None:
            _say(f"{work.what}: {work.amount(self.done)} so far, {duration(taken)}")
        else:
            left = taken / max(1, self.done) * (work.total - self.done)
            _say(f"{work.what}: {work.amount(self.done)} of {work.amount(work.total)}, {duration(left)} left")


class Drawn(Quiet):
    """A bar of long work, below the run's own where there is one."""

    def __init__(self, work: Work, within: RichProgress | None):
        self.work, self.within = work, within
        self.bar: RichProgress | None = None
        self.done, self.began = 0, time.monotonic()
        if work.at_once:
            self._show()

    def advance(self, amount: int = 1) -> None:
        self.done += amount
        if self.bar is None:
            if time.monotonic() - self.began < MOMENT:
                return
            self.bar = self._show()
        self.bar.update(self.task, completed=self.done)

    def _show(self) -> RichProgress:
        self.bar = self.within or make_bar(transient=True, in_bytes=self.work.in_bytes)
        if self.within is None:
            self.bar.start()
        self.task = self.bar.add_task(self.work.what, total=self.work.total, said="")
        return self.bar

    def end(self) -> None:
        if self.bar is None:
            return
        if self.within is None:
            self.bar.stop()
        else:
            self.bar.remove_task(self.task)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def is_terminal() -> bool:
    """Whether a bar can be drawn on stderr."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


def progress_for(
    wanted: bool | Progress, method: str, seed: int, rounds: int, done: int, shown: ShownWork = ShownWork()
) -> Progress:
    """What shows how far a run is: what its caller brought, or the bar or the lines that fit where it runs."""
    if not wanted:
        return Silent()
    if not isinstance(wanted, bool):
        if not all(hasattr(wanted, verb) for verb in ("__enter__", "advance", "__exit__")):
            raise InputError(f"progress is True, False or an object with advance(line), not {wanted!r}")
        return wanted
    if is_terminal():
        return Bar(f"{method} · seed {seed}", rounds, done, shown)
    return Lines(method, rounds, done, shown)


def tell_columns(about: Mapping[str, Any]) -> None:
    """Say on stderr what became of a table's columns; of other data there is nothing to say."""
    lines = (about.get("table") or {}).get("told", ())
    if not lines:
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, soft_wrap=True, highlight=False)
    for word, sentence in lines:
        console.print(f"[dim]{word:<9}[/] {escape(sentence)}")

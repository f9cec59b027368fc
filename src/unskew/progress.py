"""A bar with the accuracy and the time left on a terminal or in a notebook; plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from unskew.errors import InputError
from unskew.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping


class Progress(Protocol):
    """What a run tells: it begins, it has played a round, it ends."""

    def __enter__(self) -> object: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def advance(self, line: dict[str, Any]) -> None: ...


class Silent:
    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def advance(self, line: dict[str, Any]) -> None:
        pass


class Lines(Silent):
    """One line about every tenth of the run, for logs and pipes."""

    def __init__(self, spec: Spec, done: int):
        self.spec, self.first, self.began = spec, done, time.monotonic()

    def advance(self, line: dict[str, Any]) -> None:
        n, of = line["round"], self.spec.rounds
        if n == of or n * 10 // of != (n - 1) * 10 // of:
            left = (time.monotonic() - self.began) / max(1, n - self.first) * (of - n)
            accuracy = line.get("global_test_accuracy")
            shown = f"accuracy {accuracy:.4f}, " if accuracy is not None else ""
            print(
                f"{self.spec.method}: round {n}/{of}, {shown}{left:.0f} s left", file=sys.stderr, flush=True
            )


class Bar:
    """A Rich progress bar on stderr."""

    def __init__(self, spec: Spec, done: int):
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self.bar = RichProgress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[accuracy]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        label = f"{spec.method} · seed {spec.seed}"
        self.task = self.bar.add_task(label, total=spec.rounds, completed=done, accuracy="")

    def __enter__(self) -> Bar:
        self.bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.__exit__(kind, value, trace)

    def advance(self, line: dict[str, Any]) -> None:
        accuracy = line.get("global_test_accuracy")
        if accuracy is not None:
            self.bar.update(self.task, accuracy=f"accuracy {accuracy:.4f}")
        self.bar.update(self.task, completed=line["round"])


def progress_for(wanted: bool | Progress, spec: Spec, done: int) -> Progress:
    if not wanted:
        return Silent()
    if not isinstance(wanted, bool):
        if not all(hasattr(wanted, verb) for verb in ("__enter__", "advance", "__exit__")):
            raise InputError(f"progress is True, False or an object with advance(line), not {wanted!r}")
        return wanted
    from rich.console import Console

    console = Console(stderr=True)
    return Bar(spec, done) if console.is_terminal or console.is_jupyter else Lines(spec, done)


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

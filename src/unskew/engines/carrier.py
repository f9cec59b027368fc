"""Who carries pieces of work out: this process, workers on this machine (``cpu.workers``), or a cluster (``cluster``).

A piece of work depends on what was told before and on itself alone. So who carries it out, and how often it was lost on
the way, changes nothing but the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

Answer = Callable[[dict[str, Any], Any], Any]
"""``answer(what was told, work)``."""


class Carrier(Protocol):
    """Takes pieces of work, and what all of them need."""

    def tell(self, name: str, value: Any) -> None:
        """Something that pieces of work need; a new value replaces the old."""
        ...

    def map(self, work: Sequence[Any], advance: Callable[[int], None]) -> list[Any]:
        """The answers to these pieces of work, in order; ``advance`` is told of each that has come."""
        ...

    def close(self) -> None:
        """End whoever works; a busy one is not waited for."""
        ...


class InProcess:
    """Pieces of work one after the other, in this process."""

    def __init__(self, target: Answer):
        self.target = target
        self.setup: dict[str, Any] = {}

    def tell(self, name: str, value: Any) -> None:
        self.setup[name] = value

    def map(self, work: Sequence[Any], advance: Callable[[int], None]) -> list[Any]:
        found = []
        for piece in work:
            found.append(self.target(self.setup, piece))
            advance(1)
        return found

    def close(self) -> None:
        self.setup = {}

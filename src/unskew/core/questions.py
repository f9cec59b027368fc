"""A question to clients as it travels: the name of a part, of one of its questions, and values. Data, never code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from unskew.core.types import Tree


class Answerer(Protocol):
    """Whatever has questions: a part of the method, or a measurement."""

    @property
    def name(self) -> str: ...

    @property
    def questions(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Query:
    """A question as it travels."""

    part: str
    question: str
    values: Mapping[str, Any] = field(default_factory=dict)


MEASUREMENTS: dict[str, Answerer] = {}
"""Who else than a method's parts asks: name -> who answers it at a client (``unskew.runs.measure`` adds its own)."""


class Questions(Protocol):
    """The server's way to ask clients, at one moment and under one model, or under none."""

    def __call__(self, part: Answerer, question: str, clients: Iterable[int], **values: Any) -> list[Tree]:
        """The answers of these clients, in this order; the model went down to each, and its answer came up."""
        ...

    def each(self, part: Answerer, question: str, clients: Iterable[int], **values: Any) -> Iterator[Tree]:
        """The same, one after the other: for answers that are too large to keep all of."""
        ...

"""A question to clients as it travels: the name of a part, of one of its questions, and values. Data, never code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from unskew.core.types import Tree
from unskew.import_object import import_object


class Answerer(Protocol):
    """Whatever has questions: a part of the method, or a measurement."""

    @property
    def name(self) -> str: ...

    @property
    def questions(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Query:
    """A question as it travels.

    ``part`` is the name of one of the method's parts. Where somebody else answers, it is the path of its class,
    ``package.module:Class``: any process finds it there, also one that was told nothing before.
    """

    part: str
    question: str
    values: Mapping[str, Any] = field(default_factory=dict)


def find_answerer(name: str, parts: Iterable[Answerer]) -> Answerer | None:
    """Who answers the questions asked under this name: a part of the method, or a class that is found by its path."""
    known = {part.name: part for part in parts}
    if name in known or ":" not in name:
        return known.get(name)
    found: Answerer = import_object(name, "question")()
    return found


class Questions(Protocol):
    """The server's way to ask clients, at one moment and under one model, or under none."""

    def __call__(self, part: Answerer, question: str, clients: Iterable[int], **values: Any) -> list[Tree]:
        """The answers of these clients, in this order; the model went down to each, and its answer came up."""
        ...

    def each(self, part: Answerer, question: str, clients: Iterable[int], **values: Any) -> Iterator[Tree]:
        """The same, one after the other: for answers that are too large to keep all of."""
        ...

"""What checks play and how they judge: a few rounds of a subject, each played once a battery, and sentences on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, TypeVar

import torch

from unskew.core.method import Method
from unskew.core.slots import Part
from unskew.core.types import leaves
from unskew.data.federation import Federation
from unskew.expression import build
from unskew.testing.toy_federation import (
    CountingLoop,
    Played,
    RefusedSetup,
)
from unskew.testing.toy_federation import play as play_method

Subject = Part | Method
"""What a check takes: a part, which is tried as a method of its own, or a whole method."""

P = TypeVar("P", bound=Part)
T = TypeVar("T")

FAULTS = {"late": 0.4, "drop": 0.2, "nan": 0.2}
"""Clients that are late, lost, or send what is no number."""


def example(cls: type[P]) -> P:
    """A part of this class: at its defaults, or as its ``example`` writes it."""
    if cls.example is not None:
        return build(cls.example, {cls.name: cls}, "part")
    empty = dataclasses.MISSING
    fields = [f for f in dataclasses.fields(cls) if f.init]
    lacking = [f.name for f in fields if f.default is empty and f.default_factory is empty]
    must(
        not lacking,
        f"{cls.name} cannot be made without {', '.join(lacking)}: give the fields defaults, or the class an "
        f'`example: ClassVar[str | None] = "{cls.name}(...)"`',
    )
    return cls()


_played: ContextVar[dict[str, Any] | None] = ContextVar("played", default=None)
"""What one battery has played already, by settings: several checks compare with the same rounds."""


def rounds_of(subject: Subject, **settings: Any) -> Played:
    """The same rounds as ``play`` gives, played once for all checks of a battery."""
    return _once(repr(sorted(settings.items())), lambda: play(subject, keep_first=True, **settings))


def counted_rounds(subject: Subject) -> tuple[CountingLoop, Played]:
    """The usual rounds once more, by an engine that keeps books, and its books; once for all checks of a battery."""
    engine = CountingLoop()
    return _once("counted", lambda: (engine, play(subject, engine=engine)))


def _once(key: str, made: Callable[[], T]) -> T:
    known = _played.get()
    if known is None:
        return made()
    if key not in known:
        known[key] = made()
    found: T = known[key]
    return found


def play(subject: Subject, *given: Any, **settings: Any) -> Played:
    """A few rounds of a part or a method (see ``unskew.testing.toy_federation``)."""
    return play_method(method_of(subject), *given, **settings)


def method_of(subject: Subject) -> Method:
    return subject if isinstance(subject, Method) else Method.of(subject)


def name_of(subject: Subject) -> str:
    return str(subject) if isinstance(subject, Method) else subject.name


@cache
def fedavg_rounds() -> Played:
    """FedAvg's rounds, which every part's neutral values are held against."""
    return play(Method())


def play_unless_refused(
    subject: Subject, federation: Federation | None = None, **settings: Any
) -> Played | None:
    """The rounds, or None where the method refuses such clients or such a model beforehand, in a sentence."""
    told = federation is None and "engine" not in settings  # by words alone, so that they can be known again
    try:
        if told:
            return rounds_of(subject, **settings)
        return play(subject, federation, keep_first=federation is None, **settings)
    except RefusedSetup:
        return None


def is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors are the same but for rounding."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return torch.allclose(one.double(), other.double(), rtol=1e-9, atol=1e-9, equal_nan=True)


def are_alike(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two trees have the same names, and tensors of the same types and shapes."""

    def form(tree: Mapping[str, Any]) -> Any:
        return {k: form(v) if isinstance(v, dict) else (v.dtype, v.shape) for k, v in tree.items()}

    return bool(form(found) == form(wanted))


def must_be_untouched(part: Part, before: Iterable[Any], after: Iterable[Any]) -> None:
    """What a part was handed is as it was."""
    old, new = ([v for tree in trees for v in leaves(tree)] for trees in (before, after))
    same = all(torch.equal(a, b) for a, b in zip(old, new, strict=True))
    must(same, f"{part.name} writes into what it was handed")


def must(holds: bool, sentence: str) -> None:
    """``assert``, but also under ``python -O``."""
    if not holds:
        raise AssertionError(sentence)


def must_be_finite(played: Played, subject: Subject, situation: str) -> None:
    good = all(bool(torch.isfinite(v).all()) for v in played.state.params.values())
    judged = all(line["global_test_loss"] is not None for line in played.lines)
    must(good and judged, f"{name_of(subject)} ends in numbers that are not finite {situation}")


def total_of(played: Played, what: str) -> int:
    return sum(line[what] for line in played.lines)


def moved_bytes(played: Played, way: str, kind: str) -> int:
    return sum(line["bytes"][way].get(kind, 0) for line in played.lines)


@contextmanager
def one_battery() -> Iterator[None]:
    """Within it, what checks play alike is played once."""
    played = _played.set({})
    try:
        yield
    finally:
        _played.reset(played)

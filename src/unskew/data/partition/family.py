"""What a partition family is: so many samples of each class in, a (client x class) matrix of counts out.

To add one, write a frozen dataclass with ``name`` and ``counts`` and enter it in ``FAMILIES``. Which samples
of a class a client gets is decided by chance afterwards, in one place, so a family never handles samples
(only ``by`` does, because there the data has already decided).

Random numbers come from ``task.generator(...)`` and only through ``random``, ``integers``, ``permutation``
and
``standard_gamma``: the least likely of numpy's methods to change between versions and machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from unskew import seeds
from unskew.arrays import Array
from unskew.data.partition.presets import PRESETS
from unskew.errors import InputError, unknown
from unskew.expression import Call, build, parse_one, refuse_absurd, render


@dataclass(frozen=True)
class PartitionTask:
    """Deal ``sizes[y]`` samples of each class y to ``clients`` clients."""

    sizes: Array
    clients: int
    seed: int
    words: tuple[str, ...] = ()
    columns: Mapping[str, Array] = field(default_factory=dict)
    used: Array | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def classes(self) -> int:
        return len(self.sizes)

    @property
    def samples(self) -> int:
        return int(self.sizes.sum())

    @property
    def present(self) -> Array:
        """The classes that have samples."""
        return np.flatnonzero(self.sizes)

    def generator(self, *words: int | str) -> np.random.Generator:
        """Random numbers for one purpose; two purposes never share, so one may draw more without the other
        noticing (the search for an EMD relies on it)."""
        return seeds.generator(self.seed, "partition", *self.words, *words)

    def note(self, sentence: str) -> None:
        """Put something the user should know in the record."""
        if sentence not in self.notes:
            self.notes.append(sentence)

    def part(self, word: str, sizes: Array, clients: int) -> PartitionTask:
        """A smaller task inside this one, with random numbers of its own."""
        return replace(self, sizes=sizes, clients=clients, words=(*self.words, word))


class Family:
    """A way to deal samples to clients; subclasses are frozen dataclasses of its parameters."""

    name: ClassVar[str]
    knob: ClassVar[str] = ""  # the parameter that an EMD is solved for
    knob_is_log: ClassVar[bool] = False
    free: ClassVar[
        Mapping[str, Any]
    ] = {}  # what an EMD settles, so that it may be left out; with any valid value

    def counts(self, task: PartitionTask) -> Array:
        """How many samples of each class each client gets; column y sums to ``task.sizes[y]``."""
        raise TypeError(f"{self.name} does not say how it deals samples: define counts()")

    def owners(self, task: PartitionTask) -> Array | None:
        """The client of each used sample, if the data decides that; else ``None`` and ``counts`` decides."""
        return None

    def natural_clients(self, columns: Mapping[str, Array]) -> int | None:
        """The number of clients that the data itself prescribes, if it does."""
        return None

    def natural_names(self, columns: Mapping[str, Array]) -> tuple[str, ...] | None:
        """What the data itself calls its clients, if it has names for them."""
        return None

    def closed_emd(self, classes: int, clients: int) -> float | None:
        """The EMD (thesis eq. 3.3) of unlimited samples, equally many of each class, where a formula is exact.

        ``None`` where only drawing tells; then ``unlimited`` is drawn.
        """
        return None

    def unlimited(self, task: PartitionTask) -> Array:
        """One draw for unlimited samples: the share of all that each client holds of each class.

        ``task`` has many samples, equally many of each class. Families whose samples fall by chance override this,
        since even of many samples chance makes an EMD.
        """
        return np.asarray(self.counts(task) / task.samples)

    def knob_ends(self, task: PartitionTask) -> tuple[float, float] | None:
        """The ends between which the knob turns on this task; ``None`` where it does not turn smoothly."""
        return None

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        """A member for each way to have this EMD, such as the t of ``limit_labels``; its knob as a formula tells it.

        Every way can have an EMD of 0. Of a family that goes in steps: all its members, the most skewed first.
        """
        return [cls(**given)]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        """Members among which those with the least and with the most skew are, the parameters ``given`` fixed."""
        return [cls(**given)]

    def __str__(self) -> str:
        return render(self)


FAMILIES: dict[str, type[Family]] = {}
"""Every family by name; the package enters its own."""


def build_family(expression: str | Call | Family) -> Family:
    """The family that an expression names; presets are names of whole expressions."""
    if isinstance(expression, Family):
        refuse_absurd(expression)
        return expression
    if not isinstance(expression, (str, Call)):
        raise InputError(f'a partition is written like "dirichlet(0.1)", not {expression!r}')
    if isinstance(expression, str):
        name = expression.strip()
        expression = parse_one(PRESETS[name].expression if name in PRESETS else expression, "partition")
    if expression.name not in FAMILIES:
        raise unknown("partition", expression.name, [*FAMILIES, *PRESETS])
    return build(expression, FAMILIES, "partition")


def fraction_of(value: float, where: str) -> None:
    """Refuse what does not lie between 0 and 1."""
    if not 0 <= value <= 1:
        raise InputError(f"{where} must lie between 0 and 1, not {value:g}")


def above_zero(value: float, where: str) -> None:
    """Refuse what is not a finite number above 0."""
    if not 0 < value < np.inf:
        wanted = "finite" if value == np.inf else "above 0"
        raise InputError(f"{where} must be {wanted}, not {value:g}")


def at_least_one(value: int, where: str) -> None:
    """Refuse what is not a whole number of at least 1."""
    if value < 1 or value != int(value):
        raise InputError(f"{where} must be a whole number of at least 1, not {value:g}")


def no_more_than_classes(value: int, classes: int, where: str) -> None:
    """Refuse more classes than there are."""
    if value > classes:
        raise InputError(f"{where} is {value} but there are only {classes} classes; write at most {classes}")

"""What one client has at hand, at a moment: its samples, and what it made of them itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from unskew.arrays import Array
from unskew.core.types import Ids
from unskew.data.aside import Purpose
from unskew.data.dataset import Dataset

Made = tuple[Array, Array]
"""Samples of a client's own making and their labels, as they lie in a data set."""

Numbers = Mapping[str, Array]
"""By name, one number per client: what a part of the server hands out for the clients' views."""


@dataclass(frozen=True)
class Moment:
    """Which of a client's data is meant: with the views of round ``t``, before the first round, or its own alone.

    ``own`` leaves out what it was sent; ``aside`` means none of these, but what was set aside and is never trained on,
    for a "test" or for "validation". ``told`` is what parts handed out to ``clients`` for their views, by part.
    """

    t: int | None = None
    own: bool = False
    aside: Purpose | None = None
    clients: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    told: Mapping[str, Numbers] = field(default_factory=dict)

    def told_to(self, part: str, client: int) -> dict[str, float]:
        """What a client was told by a part."""
        numbers = self.told.get(part)
        if not numbers:
            return {}
        row = int(np.flatnonzero(self.clients == client)[0])
        return {name: values[row].item() for name, values in numbers.items()}


OWN = Moment(own=True)
OWN_TEST = Moment(own=True, aside="test")
VALIDATION = Moment(own=True, aside="validation")
BEFORE = Moment()


@dataclass(frozen=True, eq=False)
class Held:
    """What one client has at hand: its samples, by their position in its own list, and what they count.

    ``budget`` is the size whose epochs it spends, ``weigh`` the size that its update weighs. ``dataset`` says what
    samples look like, and holds none; ``x`` and ``labels`` are the way to the client's own.
    """

    client: int
    budget: int
    weigh: int
    dataset: Dataset = field(repr=False)
    # in the pool; places past its end are samples that the client made itself
    places: Ids = field(repr=False)
    # of all clients that live in this process, for this class alone to look at
    _pool: Dataset = field(repr=False)
    made: Made | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    @property
    def pool_size(self) -> int:
        """From which place on samples are of the client's own making."""
        return len(self._pool)

    @cached_property
    def labels(self) -> Array:
        """The class of each sample."""
        return self._values("y")

    @property
    def counts(self) -> Array:
        """How many of each class."""
        return np.bincount(self.labels, minlength=self.dataset.classes)

    def x(self, index: Array | None = None) -> Array:
        """Samples as they lie in a data set: all, or those at these positions of its list."""
        return self._values("x", index)

    def _values(self, name: str, index: Array | None = None) -> Array:
        places, pool = self.places if index is None else self.places[index], getattr(self._pool, name)
        if self.made is None:
            return np.asarray(pool[places])
        own, made = places < self.pool_size, self.made[0 if name == "x" else 1]
        found = np.empty((len(places), *pool.shape[1:]), pool.dtype)
        found[own], found[~own] = pool[places[own]], made[places[~own] - self.pool_size]
        return found

    def some(self, index: Array) -> Held:
        """The same client with these of its samples alone, which are all that it spends and weighs."""
        return replace(self, places=self.places[index], budget=len(index), weigh=len(index))

    def repeating(self, index: Array) -> Held:
        """With the samples at these positions once more each: they count in epochs and weight."""
        places = np.concatenate([self.places, self.places[index]])
        return replace(self, places=places, budget=self.budget + len(index), weigh=self.weigh + len(index))

    def adding(self, x: Array, y: Array) -> Held:
        """With samples of the client's own making, which change neither epochs nor weight."""
        before = 0 if self.made is None else len(self.made[1])
        made = (
            (x, y) if self.made is None else tuple(map(np.concatenate, zip(self.made, (x, y), strict=True)))
        )
        fresh = self.pool_size + before + np.arange(len(y))
        return replace(self, places=np.concatenate([self.places, fresh]), made=(made[0], made[1]))

"""Samples that nobody trains on: every client's own to be tested by, and those to choose rounds and settings by.

They are set aside once samples are dealt, so that the same partition is met with and without. What is drawn depends on
the seed, and on nothing that a method does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.arrays import Array
from unskew.errors import InputError
from unskew.seeds import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

Purpose = Literal["test", "validation"]
"""What samples were set aside for."""


@dataclass(frozen=True, eq=False)
class Aside:
    """Samples that are judged by and never trained on: places in the pool, or with ``in_test`` in the test set.

    Client k's are ``indices[offsets[k]:offsets[k + 1]]``; without offsets all are the server's own.
    """

    indices: Array
    offsets: Array | None = None
    in_test: bool = False

    @property
    def sizes(self) -> Array | None:
        """How many each client has; None where they are the server's."""
        return None if self.offsets is None else np.diff(self.offsets)

    def samples(self, client: int) -> Array:
        """The places of one client's."""
        assert self.offsets is not None, "these samples are the server's"
        return np.asarray(self.indices[self.offsets[client] : self.offsets[client + 1]], np.int64)

    @property
    def owners(self) -> Array:
        """Whose each sample is."""
        assert self.offsets is not None, "these samples are the server's"
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def own_tests(names: Sequence[str], values: Array) -> Aside | None:
    """Whose test samples are whose, by the column that names their owners; None where they are nobody's.

    Test samples of somebody who has nothing to train on are left to the server alone.
    """
    place = {name: k for k, name in enumerate(names)}
    owner = np.array([place.get(str(value), -1) for value in values.tolist()], np.int64)
    if not (owner >= 0).any():
        return None
    known = np.flatnonzero(owner >= 0)
    held = np.bincount(owner[known], minlength=len(names))
    return Aside(
        known[np.argsort(owner[known], kind="stable")], np.concatenate([[0], np.cumsum(held)]), in_test=True
    )


@dataclass(frozen=True, eq=False)
class Split:
    """Lists of places, parted: what stays to train on, and what was set aside."""

    indices: Array
    offsets: Array
    aside: Aside
    taken: Array  # how many of each client's

    @classmethod
    def by(cls, chosen: Array, indices: Array, offsets: Array, server: bool = False) -> Split:
        """Part lists by a mask; what is chosen stays at its client, or goes to the ``server``."""
        owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        taken = np.bincount(owner[chosen], minlength=len(offsets) - 1)
        kept, out = (np.concatenate([[0], np.cumsum(n)]) for n in (np.diff(offsets) - taken, taken))
        aside = Aside(indices[chosen], None if server else out)
        return cls(indices[~chosen], kept, aside, taken)


def split_clients(
    y: Array, indices: Array, offsets: Array, share: float, seed: int, purpose: Purpose
) -> Split:
    """Set aside a share of every client's samples, of its classes alike, and never fewer than one where it has two.

    A client keeps a sample of each of its classes to train on; who has no class twice spares one all the same. A sample
    that is held more than once is never set aside: somebody would train on it.
    """
    clients = len(offsets) - 1
    owner = np.repeat(np.arange(clients), np.diff(offsets))
    random = generator(seed, "set aside", purpose, "clients")
    order = np.lexsort((random.random(len(indices)), y[indices], owner))
    who, label = owner[order], y[indices][order]
    once = _held_once(indices)[order]
    # of each class a client keeps its first in this random order
    first = np.ones(len(order), bool)
    first[1:] = (who[1:] != who[:-1]) | (label[1:] != label[:-1])
    spare = once & ~first
    size = np.bincount(who, minlength=clients)
    none = (np.bincount(who[spare], minlength=clients) == 0) & (size >= 2)
    if none.any():  # no class twice: one of them, drawn
        drawn = np.flatnonzero(once & none[who])
        drawn = drawn[np.lexsort((random.random(len(drawn)), who[drawn]))]
        spare[drawn[np.unique(who[drawn], return_index=True)[1]]] = True
    there = np.bincount(who[spare], minlength=clients)
    wanted = np.minimum(np.maximum(np.floor(size * share + 0.5).astype(np.int64), 1), there)
    chosen = np.zeros(len(indices), bool)
    chosen[order[_evenly(who, spare, wanted, there, random)]] = True
    return Split.by(chosen, indices, offsets)


def split_pool(y: Array, indices: Array, offsets: Array, share: float, seed: int) -> Split:
    """Set aside a share of each class of all that was dealt, for the server to choose by.

    Every class keeps a sample to train on, and so does every client that has one.
    """
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    random = generator(seed, "set aside", "validation", "pool")
    draw = random.random(len(indices))
    spare = _held_once(indices)
    for of in (owner, y[indices]):  # the first in random order stays
        order = np.lexsort((draw, of))
        spare[order[np.unique(of[order], return_index=True)[1]]] = False
    order = np.lexsort((draw, y[indices]))
    label = y[indices][order]
    classes = int(label.max(initial=0)) + 1
    size, there = (np.bincount(of, minlength=classes) for of in (label, label[spare[order]]))
    wanted = np.minimum(np.floor(size * share + 0.5).astype(np.int64), there)
    if not wanted.any():  # of so few that no class has a whole one to give
        wanted[np.argmax(there)] = min(1, int(there.max(initial=0)))
    chosen = np.zeros(len(indices), bool)
    chosen[order[_evenly(label, spare[order], wanted, there, random)]] = True
    return Split.by(chosen, indices, offsets, server=True)


def _evenly(group: Array, spare: Array, wanted: Array, there: Array, random: Any) -> Array:
    """Which to take: so many of the spare ones of each group, evenly along the order, from a random start.

    The order goes class by class, so every class gives its share, give or take one.
    """
    at = np.flatnonzero(spare)
    of = group[at]
    begins = np.concatenate([[0], np.cumsum(there)])[:-1]
    rank = np.arange(len(at)) - begins[of]
    start = random.integers(0, 1 << 20, len(there))[of] / (1 << 20)
    count, total = wanted[of], np.maximum(1, there[of])
    # exactly ``wanted`` of them step over a whole number: (total * count) / total is count, to the bit
    before, after = rank * count / total, (rank + 1) * count / total
    return np.asarray(at[np.floor(after + start) > np.floor(before + start)])


def _held_once(indices: Array) -> Array:
    return np.asarray(np.bincount(indices)[indices] == 1) if len(indices) else np.zeros(0, bool)


def refuse_nothing(split: Split, setting: str, share: float) -> Split:
    """The split, unless it is none: nobody could spare a sample."""
    if not len(split.aside.indices):
        raise InputError(
            f"{setting} = {share:g} can set no sample aside: nobody holds two samples of their own; deal to fewer "
            f"clients, use more samples, or leave {setting} out"
        )
    return split

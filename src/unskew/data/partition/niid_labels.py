"""``niid_labels``: NIID-Bench's #C = k, whose class every client certainly has goes round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.deal import equal_shares
from unskew.data.partition.family import Family, PartitionTask, at_least_one, no_more_than_classes
from unskew.expression import Usual


@dataclass(frozen=True)
class NiidLabels(Family):
    """Client i holds class i mod M and k - 1 others at random; a class is dealt evenly to its owners.

    NIID-Bench (Li et al., ICDE 2022, section 4.1) calls it #C = k. Unlike with ``labels(k)``, a class may have many
    owners or few, so sizes differ. With k = 1 it is ``labels(1)`` but for who holds what. Where there are fewer
    clients than classes, a class that nobody took goes to client y mod K; NIID-Bench leaves its samples out.
    """

    k: Annotated[int, Usual(1, start=2)]
    name: ClassVar[str] = "niid_labels"
    knob: ClassVar[str] = "k"
    free: ClassVar[Mapping[str, Any]] = {"k": 1}

    def __post_init__(self) -> None:
        at_least_one(self.k, "k of niid_labels")

    def counts(self, task: PartitionTask) -> Array:
        no_more_than_classes(self.k, task.classes, "k of niid_labels")
        owns = self._owned(task, _turns(task))
        counts = np.zeros((task.clients, task.classes), np.int64)
        for y in task.present:
            owners = np.flatnonzero(owns[:, y])
            rng = task.generator("shares", int(y))
            counts[owners, y] = equal_shares(int(task.sizes[y]), len(owners), rng)
        return counts

    def unlimited(self, task: PartitionTask) -> Array:
        """A class is the same share of all for each of its owners."""
        no_more_than_classes(self.k, task.classes, "k of niid_labels")
        owns = self._owned(task, _known_turns(task.seed, task.words, task.clients, task.classes))
        return np.asarray(owns / owns.sum(axis=0) / task.classes)

    def _owned(self, task: PartitionTask, turns: Array) -> Array:
        """[clients, classes]: who owns which class."""
        present = task.present
        owns = np.zeros((task.clients, task.classes), bool)
        np.put_along_axis(owns, turns[:, : self.k], True, axis=1)
        for at in np.flatnonzero(~owns[:, present].any(axis=0)).tolist():
            task.note(f"nobody took class {present[at]}, so client {at % task.clients} holds it too")
            owns[at % task.clients, present[at]] = True
        return owns

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        return [cls(k) for k in range(1, classes + 1)]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(len(task.present)), cls(1)]


def _turns(task: PartitionTask) -> Array:
    """[clients, classes]: in which order a client would take classes, its own and then the others at random."""
    present = task.present
    rng = task.generator("owners")
    index = np.arange(len(present) - 1)
    others = present[index + (index >= np.arange(len(present))[:, None])]  # row by row all but one
    turns = np.empty((task.clients, len(present)), np.min_scalar_type(task.classes))
    for client in range(task.clients):
        at = client % len(present)
        turns[client, 0], turns[client, 1:] = present[at], rng.permutation(others[at])
    return turns


@lru_cache(maxsize=256)  # whoever looks for a k draws the same, whatever k it is
def _known_turns(seed: int, words: tuple[str, ...], clients: int, classes: int) -> Array:
    return _turns(PartitionTask(np.ones(classes, np.int64), clients, seed, words))

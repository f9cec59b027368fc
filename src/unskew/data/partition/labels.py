"""``labels`` and ``shards``: clients hold a few classes and equally many samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.assign import emd_of_owners, owners_of_classes, shares_of_owners
from unskew.data.partition.deal import equal_shares
from unskew.data.partition.family import Family, PartitionTask, at_least_one, no_more_than_classes
from unskew.errors import InputError
from unskew.expression import Usual


@dataclass(frozen=True)
class Labels(Family):
    """Every client holds q random classes and as many samples as the others: FLea's Qua(q).

    FLea (KDD 2024, section 4.1.2) calls it quantity-based skew, after Zhang et al. (ICML 2022). A class has
    owners in proportion to its samples, which its owners share equally; so sizes are equal where classes
    are, and elsewhere as nearly as whole numbers of owners allow. ``labels(1)`` is the single-class client
    of Seol & Kim and of DACA. EMD = 2 - 2q/M. (``limit_labels(q)`` gives every class equally many owners
    instead.)
    """

    q: Annotated[int, Usual(1, start=2)]
    name: ClassVar[str] = "labels"
    knob: ClassVar[str] = "q"
    free: ClassVar[Mapping[str, Any]] = {"q": 1}

    def __post_init__(self) -> None:
        at_least_one(self.q, "q of labels")

    def counts(self, task: PartitionTask) -> Array:
        no_more_than_classes(self.q, task.classes, "q of labels")
        owners = owners_of_classes(task, self.q, task.sizes)
        counts = np.zeros((task.clients, task.classes), np.int64)
        for y in task.present:
            rng = task.generator("shares", int(y))
            counts[owners[y], y] = equal_shares(int(task.sizes[y]), len(owners[y]), rng)
        return counts

    def closed_emd(self, classes: int, clients: int) -> float | None:
        return emd_of_owners(self.q, classes, clients, lambda owners: (1 / owners, 0.0))

    def unlimited(self, task: PartitionTask) -> Array:
        return shares_of_owners(task, self.q, lambda owners: (1 / owners, 0.0))

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        return [cls(q) for q in range(1, classes + 1)]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(len(task.present)), cls(1)]


@dataclass(frozen=True)
class Shards(Family):
    """Samples sorted by class and cut into s equal shards a client, dealt at random.

    McMahan et al. (AISTATS 2017): two shards a client there. A client holds at most a few classes, perhaps
    one of them twice. EMD = M E|h/s - 1/M|, h the shards of one class among the client's s: hypergeometric. That
    is where M divides the sK shards; elsewhere shards lie across classes and it is simulated.
    """

    s: Annotated[int, Usual(1, 20)] = 2
    name: ClassVar[str] = "shards"
    knob: ClassVar[str] = "s"
    free: ClassVar[Mapping[str, Any]] = {"s": 2}

    def __post_init__(self) -> None:
        at_least_one(self.s, "s of shards")

    def counts(self, task: PartitionTask) -> Array:
        shards = self.s * task.clients
        if self.s > (most := _most_shards(task)):
            raise InputError(
                f"{self} cuts {task.samples:,} samples into {shards:,} shards, most of them empty; write at most "
                f"s={most}"
            )
        cuts = np.arange(shards + 1) * task.samples // shards
        classes = np.concatenate([[0], np.cumsum(task.sizes)])
        # between two neighbouring points of either kind lies one shard and one class
        points = np.sort(np.concatenate([cuts, classes[1:-1]]))
        start, length = points[:-1], np.diff(points)
        shard = np.minimum(np.searchsorted(cuts, start, side="right") - 1, shards - 1)
        y = np.minimum(np.searchsorted(classes, start, side="right") - 1, task.classes - 1)
        client = task.generator("shards").permutation(shards) % task.clients
        counts = np.zeros((task.clients, task.classes), np.int64)
        np.add.at(counts, (client[shard], y), length)
        return counts

    def closed_emd(self, classes: int, clients: int) -> float | None:
        """Where shards divide classes evenly; elsewhere some lie in two or more classes."""
        shards = self.s * clients
        of_class, over = divmod(shards, classes)
        if min(classes, clients) == 1:
            return 0.0
        if over:
            return None
        total, all_ways = 0.0, _log_comb(shards, self.s)
        for h in range(max(0, self.s - (shards - of_class)), min(self.s, of_class) + 1):
            ways = _log_comb(of_class, h) + _log_comb(shards - of_class, self.s - h)
            total += math.exp(ways - all_ways) * abs(h / self.s - 1 / classes)
        return classes * total

    def unlimited(self, task: PartitionTask) -> Array:
        """Cut without a remainder: a shard has one sample for every class, a class one for every shard."""
        even = replace(task, sizes=np.full(task.classes, self.s * task.clients))
        return np.asarray(self.counts(even) / even.samples)

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        return [cls(s) for s in range(1, 10 * classes)]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(min(10 * len(task.present) - 1, _most_shards(task))), cls(1)]


def _most_shards(task: PartitionTask) -> int:
    """Of a client: ten times as many as there are samples would leave nearly all empty."""
    return 10 * max(task.samples, task.clients) // task.clients


def _log_comb(n: int, k: int) -> float:
    """The logarithm of n over k, which itself may have thousands of digits."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

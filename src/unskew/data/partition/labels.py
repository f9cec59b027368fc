"""``labels`` and ``shards``: clients hold a few classes and equally many samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np

from unskew.data.dataset import Array
from unskew.data.partition.assign import owners_of_classes
from unskew.data.partition.deal import equal_shares
from unskew.data.partition.family import Family, Task, at_least_one, no_more_than_classes
from unskew.data.partition.limit_labels import highest_emd
from unskew.errors import InputError


@dataclass(frozen=True)
class Labels(Family):
    """Every client holds q random classes and as many samples as the others: FLea's Qua(q).

    FLea (KDD 2024, section 4.1.2) calls it quantity-based skew, after Zhang et al. (ICML 2022). A class has
    owners in proportion to its samples, which its owners share equally; so sizes are equal where classes
    are, and elsewhere as nearly as whole numbers of owners allow. ``labels(1)`` is the single-class client
    of Seol & Kim and of DACA. EMD = 2 - 2q/M. (``limit_labels(q)`` gives every class equally many owners
    instead.)
    """

    q: int
    name: ClassVar[str] = "labels"
    knob: ClassVar[str] = "q"
    free: ClassVar[Mapping[str, Any]] = {"q": 1}

    def __post_init__(self) -> None:
        at_least_one(self.q, "q of labels")

    def counts(self, task: Task) -> Array:
        no_more_than_classes(self.q, task.classes, "q of labels")
        owners = owners_of_classes(task, self.q, task.sizes)
        counts = np.zeros((task.clients, task.classes), np.int64)
        for y in task.present:
            rng = task.generator("shares", int(y))
            counts[owners[y], y] = equal_shares(int(task.sizes[y]), len(owners[y]), rng)
        return counts

    def expected_emd(self, classes: int, clients: int) -> float:
        return highest_emd(self.q, classes, clients)

    @classmethod
    def reach(cls, classes: int, clients: int, given: Mapping[str, Any]) -> tuple[float, float]:
        return 0.0, highest_emd(1, classes, clients)

    @classmethod
    def solve(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        members = (cls(q) for q in range(1, classes + 1))
        return list(islice((m for m in members if abs(m.expected_emd(classes, clients) - emd) < 5e-3), 1))


@dataclass(frozen=True)
class Shards(Family):
    """Samples sorted by class and cut into s equal shards a client, dealt at random.

    McMahan et al. (AISTATS 2017): two shards a client there. A client holds at most a few classes, perhaps
    one of them twice. EMD = M E|h/s - 1/M|, h the shards of one class among the client's s: hypergeometric.
    """

    s: int = 2
    name: ClassVar[str] = "shards"
    knob: ClassVar[str] = "s"
    free: ClassVar[Mapping[str, Any]] = {"s": 2}

    def __post_init__(self) -> None:
        at_least_one(self.s, "s of shards")

    def counts(self, task: Task) -> Array:
        shards = self.s * task.clients
        if shards > (most := 10 * max(task.samples, task.clients)):
            raise InputError(
                f"{self} cuts {task.samples:,} samples into {shards:,} shards, most of them empty; write at most "
                f"s={most // task.clients}"
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

    def expected_emd(self, classes: int, clients: int) -> float:
        """For shards that divide classes evenly; else the nearest such number of them."""
        shards = self.s * clients
        of_class = max(1, round(shards / classes))
        if of_class >= shards:
            return 0.0
        total, all_ways = 0.0, _log_comb(shards, self.s)
        for h in range(max(0, self.s - (shards - of_class)), min(self.s, of_class) + 1):
            ways = _log_comb(of_class, h) + _log_comb(shards - of_class, self.s - h)
            total += math.exp(ways - all_ways) * abs(h / self.s - 1 / classes)
        return classes * total

    @classmethod
    def reach(cls, classes: int, clients: int, given: Mapping[str, Any]) -> tuple[float, float]:
        return 0.0, highest_emd(1, classes, clients)

    @classmethod
    def solve(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        members = (cls(s) for s in range(1, 10 * classes))
        return list(islice((m for m in members if abs(m.expected_emd(classes, clients) - emd) < 5e-3), 1))


def _log_comb(n: int, k: int) -> float:
    """The logarithm of n over k, which itself may have thousands of digits."""
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)

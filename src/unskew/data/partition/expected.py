"""How skewed a setting will be on a given pool: by its closed form where that is exact, else by simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Self

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset, check_labels
from unskew.data.partition.amount import amount_used, refuse_fewer
from unskew.data.partition.family import Family, PartitionTask
from unskew.data.partition.repair import repair
from unskew.errors import InputError
from unskew.metrics import system_emd

_LEAST = 8  # partitions
_CELLS = 100_000  # drawn in all, a cell a client and class: then the mean is good to about 0.003
_SAMPLES = 400_000  # dealt in all, on a pool with samples
_STEADY = 1000  # clients: with unlimited samples the EMD no longer changes (thesis figure 3.1: from 15 on)


class Expected(float):
    """An EMD to be expected; ``spread`` is the standard deviation of one partition, 0 where a closed form is exact."""

    spread: float

    def __new__(cls, emd: float, spread: float = 0.0) -> Self:
        made = super().__new__(cls, emd)
        made.spread = float(spread)
        return made

    def __str__(self) -> str:
        """``1.4``, or ``1.40 ± 0.06`` where it was simulated."""
        if self.spread < 0.0005:
            return f"{float(self):.4g}"
        digits = 2 if self.spread >= 0.005 else 3
        return f"{float(self):.{digits}f} ± {self.spread:.{digits}f}"


@dataclass(frozen=True)
class ClassPool:
    """What is dealt to how many: ``sizes[y]`` samples of each class y, or unlimited ones, equally many of each."""

    classes: int
    clients: int
    sizes: Array | None = None
    used: int = 0  # so many of the samples, drawn at random
    min_samples: int = 0
    # partitions drawn to tell the mean and the spread; fewer where samples are dealt, or many
    most: int = 200
    known: dict[Family, Expected] = field(default_factory=dict, compare=False)  # what was simulated already
    tasks: dict[int, PartitionTask] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        data: int | Dataset | Array | Sequence[int],
        clients: int,
        *,
        fraction: float = 1.0,
        samples_per_client: int | None = None,
        min_samples: int = 1,
    ) -> ClassPool:
        """The pool of a data set or its labels; of a number of classes, with ``samples_per_client`` or unlimited."""
        if clients < 1 or clients != int(clients):
            raise InputError(f"clients must be a whole number of at least 1, not {clients}")
        if isinstance(data, int | np.integer):
            if data < 1:
                raise InputError(f"there must be at least one class, not {data}")
            if fraction != 1:
                raise InputError("fraction is a share of the data, and none is given; leave it out")
            if samples_per_client is None:
                return _unlimited(int(data), clients)
            total = samples_per_client * clients
            sizes = np.full(int(data), total // data, np.int64)
            sizes[: total % data] += 1
        else:
            labels = data.y if isinstance(data, Dataset) else check_labels(data, None, "the labels")
            sizes = np.bincount(labels)
        used = amount_used(int(sizes.sum()), clients, fraction, samples_per_client)
        refuse_fewer(clients, min_samples, used)
        return cls(int(np.count_nonzero(sizes)), clients, sizes, used, min_samples, most=24)

    def task(self, seed: int) -> PartitionTask:
        """One dealing of this pool; unlimited samples are many there."""
        if seed not in self.tasks:
            self.tasks[seed] = self._task(seed)
        return self.tasks[seed]

    def _task(self, seed: int) -> PartitionTask:
        if self.sizes is None:
            many = max(1, min(200 * self.clients, _SAMPLES // self.classes))
            return PartitionTask(
                np.full(self.classes, many), min(self.clients, _STEADY), seed, ("expected emd",)
            )
        task = PartitionTask(self.sizes, self.clients, seed, ("expected emd",))
        if self.used < task.samples:
            labels = np.repeat(np.arange(len(self.sizes)), self.sizes)
            drawn = task.generator("used samples").permutation(labels)[: self.used]
            task = PartitionTask(
                np.bincount(drawn, minlength=len(self.sizes)), self.clients, seed, task.words
            )
        return task

    @property
    def draws(self) -> int:
        """How many partitions are drawn."""
        cells = self.classes * min(self.clients, _STEADY)
        room = _CELLS // cells if self.sizes is None else _SAMPLES // (self.used + cells)
        return max(_LEAST, min(self.most, room))


@lru_cache(maxsize=16)
def _unlimited(classes: int, clients: int) -> ClassPool:
    """A pool without an end; what was simulated on it is known to all who ask about it."""
    return ClassPool(classes, clients)


def expected_on(member: Family, pool: ClassPool) -> Expected:
    """The EMD that a partition of this pool by ``member`` has on average."""
    if member not in pool.known:
        pool.known[member] = _expected(member, pool)
    return pool.known[member]


def _expected(member: Family, pool: ClassPool) -> Expected:
    if pool.sizes is None:
        closed = member.closed_emd(pool.classes, pool.clients)
        if closed is not None:
            return Expected(round(closed, 12))
        found = [_emd_of_shares(member.unlimited(pool.task(seed))) for seed in range(pool.draws)]
    else:
        found = [_emd_of_one(member, pool, seed) for seed in range(pool.draws)]
    return Expected(float(np.mean(found)), float(np.std(found, ddof=1)))


def _emd_of_one(member: Family, pool: ClassPool, seed: int) -> float:
    task = pool.task(seed)
    return system_emd(repair(member.counts(task), pool.min_samples, task.generator("repair"))[0])


def _emd_of_shares(shares: Array) -> float:
    """The EMD of a table of shares of all samples (thesis eq. 3.3)."""
    return float(np.abs(shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))).sum())

"""``q`` and ``limit_labels_q``: every sample is thrown, with probability q, to an owner of its class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.assign import Cell, emd_of_owners, owners_of_classes, shares_of_owners
from unskew.data.partition.family import (
    Family,
    PartitionTask,
    at_least_one,
    fraction_of,
    no_more_than_classes,
)
from unskew.expression import Usual


@dataclass(frozen=True)
class Q(Family):
    """Clients in M groups; a sample of class y goes to group y with probability q, else to another: q(q).

    Cao et al. (FLTrust, NDSS 2021), as in the thesis, section 3.2.2; another group is hit with probability
    (1-q)/(M-1), printed as (1-q)/(1-M). p_k(y) = q for the client's own class, else (1-q)/(M-1) (eq. 3.7).
    EMD = 2q - 2/M for q >= 1/M (eq. 3.8). A finite sample adds a little, most near q = 1/M, where 0 is
    expected.
    """

    q: Annotated[float, Usual(0, 1, start=0.8)]
    name: ClassVar[str] = "q"
    knob: ClassVar[str] = "q"
    free: ClassVar[Mapping[str, Any]] = {"q": 1.0}

    def __post_init__(self) -> None:
        fraction_of(self.q, "q of q")

    def counts(self, task: PartitionTask) -> Array:
        return _thrown_to_owners(task, 1, self.q)

    def closed_emd(self, classes: int, clients: int) -> float | None:
        return _closed(1, self.q, classes, clients)

    def unlimited(self, task: PartitionTask) -> Array:
        return shares_of_owners(task, 1, _cell(self.q, task.clients))

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return _ends(1, len(task.present), task.clients)

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        return [cls(q) for q in _start(emd, 1, classes, clients)]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(end) for end in _ends(1, len(task.present), task.clients)]


@dataclass(frozen=True)
class LimitLabelsQ(Family):
    """Clients own t classes; a sample goes to an owner of its class with probability q: ll_q(t, q).

    Cornelis (TU Delft thesis, 2022, section 3.2.5). Each owner of class y gets a sample of it with
    probability qM/(tK), each other client with probability (1-q)/(K - tK/M) (eq. 3.10), so that p_k(y) =
    q/t in Omega_k, else (1-q)/(M-t) (eq. 3.12). EMD = 2q - 2t/M for q >= t/M (eq. 3.13).
    ``limit_labels_q(1, q)`` is ``q(q)``.
    """

    t: Annotated[int, Usual(1, start=2)]
    q: Annotated[float, Usual(0, 1, start=0.8)]
    name: ClassVar[str] = "limit_labels_q"
    knob: ClassVar[str] = "q"
    free: ClassVar[Mapping[str, Any]] = {"t": 1, "q": 1.0}

    def __post_init__(self) -> None:
        at_least_one(self.t, "t of limit_labels_q")
        fraction_of(self.q, "q of limit_labels_q")

    def counts(self, task: PartitionTask) -> Array:
        no_more_than_classes(self.t, task.classes, "t of limit_labels_q")
        return _thrown_to_owners(task, self.t, self.q)

    def closed_emd(self, classes: int, clients: int) -> float | None:
        return _closed(self.t, self.q, classes, clients)

    def unlimited(self, task: PartitionTask) -> Array:
        return shares_of_owners(task, self.t, _cell(self.q, task.clients))

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return _ends(self.t, len(task.present), task.clients)

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        """Thesis section 3.3: every t in 1..M-1 for which eq. 3.13 has a solution q in t/M..1."""
        which = [given["t"]] if "t" in given else range(1, max(2, classes))
        return [cls(t, q) for t in which for q in _start(emd, t, classes, clients)]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        t = given.get("t", 1)
        return [cls(t, end) for end in _ends(t, len(task.present), task.clients)]


def _cell(q: float, clients: int) -> Cell:
    return lambda owners: (
        (q / owners, (1 - q) / (clients - owners)) if owners < clients else (1 / clients, 0.0)
    )


def _closed(t: int, q: float, classes: int, clients: int) -> float | None:
    return emd_of_owners(t, classes, clients, _cell(q, clients))


def _ends(t: int, classes: int, clients: int) -> tuple[float, float]:
    return min(1.0, max(t / classes, 1 / clients)), 1.0


def _start(emd: float, t: int, classes: int, clients: int) -> list[float]:
    """q of eq. 3.13, if there is one; of fewer than M/t clients each owns more than t classes."""
    q = round(emd / 2 + _ends(t, classes, clients)[0], 12)
    return [min(q, 1.0)] if q <= 1 + 1e-9 else []


def _thrown_to_owners(task: PartitionTask, t: int, q: float) -> Array:
    owners = owners_of_classes(task, t)
    counts = np.zeros((task.clients, task.classes), np.int64)
    for y in task.present:
        rng = task.generator("samples", int(y))
        others = np.ones(task.clients, bool)
        others[owners[y]] = False
        rest = np.flatnonzero(others)
        hit = rng.random(int(task.sizes[y])) < q
        # where everyone owns the class there is no outside
        inside = int(hit.sum()) if len(rest) else len(hit)
        for receivers, size in ((owners[y], inside), (rest, len(hit) - inside)):
            if size:
                thrown = rng.integers(0, len(receivers), size)
                counts[receivers, y] = np.bincount(thrown, minlength=len(receivers))
    return counts

"""``limit_labels``: a share of every class goes to few clients, the rest to all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.assign import emd_of_owners, owners_of_classes, shares_of_owners
from unskew.data.partition.deal import equal_shares
from unskew.data.partition.family import (
    Family,
    PartitionTask,
    at_least_one,
    fraction_of,
    no_more_than_classes,
)
from unskew.errors import InputError
from unskew.expression import Usual


@dataclass(frozen=True)
class LimitLabels(Family):
    """Clients own t classes; a share f of each class goes to its owners, the rest to everyone: ll(t, f).

    Cornelis (TU Delft thesis, 2022, section 3.2.1). Client k owns a set Omega_k of ``t`` classes, each
    class having equally many owners (eq. 3.4). A client gets (1-f)/K of every class (printed as (f-1)/K),
    and the owners of a class share the fraction f of it: p_k(y) = f/t + (1-f)/M in Omega_k, else (1-f)/M
    (eq. 3.5). EMD = 2f - 2tf/M (eq. 3.6b), for any number of clients from M/t up.

    ``at_least``: samples of every class that every client gets in any case. The thesis (section 4.4) gives
    one where f = 1, because FedAug cannot augment a class of which a client has nothing. Default 0: the
    pure sampler of the papers in its table 3.1.
    """

    t: Annotated[int, Usual(1, start=2)]
    f: Annotated[float, Usual(0, 1)] = 1.0
    at_least: Annotated[int, Usual(0, 10)] = 0
    name: ClassVar[str] = "limit_labels"
    knob: ClassVar[str] = "f"
    free: ClassVar[Mapping[str, Any]] = {"t": 1}

    def __post_init__(self) -> None:
        at_least_one(self.t, "t of limit_labels")
        fraction_of(self.f, "f of limit_labels")
        if self.at_least < 0:
            raise InputError(f"at_least of limit_labels must not be negative, not {self.at_least}")

    def counts(self, task: PartitionTask) -> Array:
        no_more_than_classes(self.t, task.classes, "t of limit_labels")
        owners = owners_of_classes(task, self.t)
        counts = np.zeros((task.clients, task.classes), np.int64)
        for y in task.present:
            rng = task.generator("shares", int(y))
            size = int(task.sizes[y])
            for_all = max(round((1 - self.f) * size), self.at_least * task.clients)
            if for_all > size:
                raise InputError(
                    f"at_least={self.at_least} for {task.clients} clients needs {for_all} samples of every class, "
                    f"but class {y} has {size}; lower at_least or the number of clients"
                )
            counts[:, y] += equal_shares(for_all, task.clients, rng)
            counts[owners[y], y] += equal_shares(size - for_all, len(owners[y]), rng)
        return counts

    def closed_emd(self, classes: int, clients: int) -> float | None:
        """2f - 2tf/M (eq. 3.6b) wherever owners suffice; what every client gets anyway scales it by f."""
        full = emd_of_owners(self.t, classes, clients, lambda owners: (1 / owners, 0.0))
        return None if full is None or self.at_least else self.f * full

    def unlimited(self, task: PartitionTask) -> Array:
        if self.at_least:
            return super().unlimited(task)
        rest = (1 - self.f) / task.clients
        return shares_of_owners(task, self.t, lambda owners: (rest + self.f / owners, rest))

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return 0.0, 1.0

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        """Thesis section 3.3: every t for which eq. 3.6b has a solution f in 0..1."""
        found = []
        for t in [given["t"]] if "t" in given else range(1, max(2, classes)):
            top = highest_emd(t, classes, clients)
            if emd <= top + 1e-9:
                f = min(1.0, round(emd / top, 12)) if top > 0 else 0.0
                found.append(cls(**{**given, "t": t, "f": f}))
        return found

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(**{**given, "t": given.get("t", 1), "f": f}) for f in (0.0, 1.0)]


def highest_emd(t: int, classes: int, clients: int) -> float:
    """The EMD of clients that hold only their own t classes; fewer than M/t clients must own more than t."""
    found = emd_of_owners(t, classes, clients, lambda owners: (1 / owners, 0.0))
    return max(0.0, 2 - 2 * t / classes) if found is None else found

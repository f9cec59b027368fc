"""Labels alike everywhere: ``iid`` with equal sizes, ``quantity`` with unequal ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.deal import equal_shares, from_logs, log_gamma_draws, shares
from unskew.data.partition.family import Family, PartitionTask, above_zero
from unskew.expression import Usual


@dataclass(frozen=True)
class Iid(Family):
    """All samples shuffled and dealt in equal shares; EMD 0 but for chance."""

    name: ClassVar[str] = "iid"

    def counts(self, task: PartitionTask) -> Array:
        rng = task.generator("shares")
        return _cut(task, equal_shares(task.samples, task.clients, rng), rng)

    def closed_emd(self, classes: int, clients: int) -> float:
        return 0.0

    def unlimited(self, task: PartitionTask) -> Array:
        return np.full((task.clients, task.classes), 1 / (task.clients * task.classes))


@dataclass(frozen=True)
class Quantity(Family):
    """Unequal sizes, labels as in iid; EMD 0 but for chance.

    ``law=dirichlet``: sizes follow Dir_K(alpha), the quantity skew of Li et al. (ICDE 2022); a small alpha is
    skewed. ``law=power``: the client of rank r holds a share in proportion to r^-alpha; a large alpha is
    skewed. (The thesis notes, on p. 14, that papers promise "a power law" and give no exponent.)
    """

    alpha: Annotated[float, Usual(0.1, 10, start=0.5, log=True)]
    law: Literal["dirichlet", "power"] = "dirichlet"
    name: ClassVar[str] = "quantity"

    def __post_init__(self) -> None:
        above_zero(self.alpha, "alpha of quantity")

    def counts(self, task: PartitionTask) -> Array:
        rng = task.generator("shares")
        return _cut(task, shares(task.samples, self._weights(task, rng), rng), rng)

    def _weights(self, task: PartitionTask, rng: np.random.Generator) -> Array:
        if self.law == "dirichlet":
            return from_logs(log_gamma_draws(self.alpha, (task.clients,), rng))
        return from_logs(-self.alpha * np.log1p(rng.permutation(task.clients)))

    def closed_emd(self, classes: int, clients: int) -> float:
        return 0.0

    def unlimited(self, task: PartitionTask) -> Array:
        weights = self._weights(task, task.generator("shares"))
        return np.outer(weights / weights.sum(), np.full(task.classes, 1 / task.classes))


def _cut(task: PartitionTask, sizes: Array, rng: np.random.Generator) -> Array:
    """All samples shuffled and cut into pieces of these sizes, counted by class."""
    labels = rng.permutation(np.repeat(np.arange(task.classes), task.sizes))
    cell = np.repeat(np.arange(task.clients) * task.classes, sizes) + labels
    return np.bincount(cell, minlength=task.clients * task.classes).reshape(task.clients, task.classes)

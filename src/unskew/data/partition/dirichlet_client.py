"""``dirichlet_client``: each client draws its own mix of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.deal import equal_shares, from_logs, log_gamma_draws, throw_rows
from unskew.data.partition.dirichlet import ALPHA_ENDS, bisect_alpha
from unskew.data.partition.family import Family, PartitionTask, above_zero
from unskew.expression import Usual


@dataclass(frozen=True)
class DirichletClient(Family):
    """Each client draws its class mix from a Dirichlet around the pool's; sizes are equal.

    Hsu, Qi and Brown (2019), as in Seol & Kim (Sensors 2023, section 3.2): q_k ~ Dir(alpha p). Their 0.2
    leaves a client about six classes; a concentration of 0.2 for each class gives about seven here and 0.2/M
    about three, so q_k ~ Dir(alpha M p), p the pool's label distribution: ``alpha`` a class if all are equal.

    Pools are finite, so wishes cannot all be met. All clients draw their samples' classes; a class wished
    for more often than it has samples grants wishes by chance, and the refused draw again, by the same q_k,
    among the classes left. Every such round empties a class or ends, so there are at most M of them, and no
    client is favoured (dealing client after client gives the last ones what is left over).

    EMD if no wish were refused: 2M a^a b^b / (B(a,b) (a+b)^(a+b+1)) with a = alpha, b = (M-1) alpha, the mean
    absolute deviation of the Beta(a, b) shares. Few clients wish unevenly, and what they are refused takes from
    it: with ten classes and 20 clients 1.40 becomes 1.26. So the EMD to be expected is simulated.
    """

    alpha: Annotated[float, Usual(0.01, 100, start=0.1, log=True)]
    name: ClassVar[str] = "dirichlet_client"
    knob: ClassVar[str] = "alpha"
    knob_is_log: ClassVar[bool] = True
    free: ClassVar[Mapping[str, Any]] = {"alpha": 1.0}

    def __post_init__(self) -> None:
        above_zero(self.alpha, "alpha of dirichlet_client")

    def counts(self, task: PartitionTask) -> Array:
        present = task.present
        supply = task.sizes[present].copy()
        concentration = self.alpha * len(present) * supply / supply.sum()
        logs = log_gamma_draws(concentration, (task.clients, len(present)), task.generator("mixes"))
        rng = task.generator("samples")
        open_slots = equal_shares(task.samples, task.clients, rng)
        counts = np.zeros((task.clients, task.classes), np.int64)
        while open_slots.any():
            waiting, stocked = np.flatnonzero(open_slots), np.flatnonzero(supply)
            mixes = from_logs(logs[np.ix_(waiting, stocked)])
            wishes = throw_rows(open_slots[waiting], mixes, rng)
            for i, y in enumerate(stocked):
                granted = _granted(wishes[:, i], int(supply[y]), rng)
                counts[waiting, present[y]] += granted
                open_slots[waiting] -= granted
                supply[y] -= granted.sum()
        return counts

    def closed_emd(self, classes: int, clients: int) -> float | None:
        return 0.0 if min(classes, clients) == 1 else None

    def unlimited(self, task: PartitionTask) -> Array:
        """As ``counts`` does it, with wishes in place of draws: a class that is short grants all the same share."""
        logs = log_gamma_draws(self.alpha, (task.clients, task.classes), task.generator("mixes"))
        held = np.zeros((task.clients, task.classes))
        supply, open_share = np.full(task.classes, 1 / task.classes), np.full(task.clients, 1 / task.clients)
        for _ in range(task.classes):  # each turn empties a class or is the last
            stocked = supply > 1e-12
            if not stocked.any():
                break
            mixes = np.where(stocked, from_logs(np.where(stocked, logs, -np.inf)), 0.0)
            wishes = open_share[:, None] * mixes / mixes.sum(axis=1, keepdims=True)
            granted = wishes * np.minimum(1.0, supply / np.maximum(wishes.sum(axis=0), 1e-300))
            held += granted
            supply, open_share = supply - granted.sum(axis=0), open_share - granted.sum(axis=1)
        return np.asarray(held / held.sum())

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return ALPHA_ENDS

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        return [cls(bisect_alpha(lambda alpha: _never_refused(alpha, classes), emd))]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(end) for end in ALPHA_ENDS]


def _granted(wishes: Array, supply: int, rng: np.random.Generator) -> Array:
    """All wishes, or ``supply`` of them by chance."""
    if int(wishes.sum()) <= supply:
        return wishes
    single = np.repeat(np.arange(len(wishes)), wishes)
    return np.bincount(rng.permutation(single)[:supply], minlength=len(wishes))


def _never_refused(alpha: float, classes: int) -> float:
    """The EMD if every client had its wish."""
    if classes == 1:
        return 0.0
    a, b = alpha, (classes - 1) * alpha
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    log_deviation = a * math.log(a) + b * math.log(b) - (a + b + 1) * math.log(a + b) - log_beta
    return 2 * classes * math.exp(log_deviation)

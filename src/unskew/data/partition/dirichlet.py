"""``dirichlet``: each class spread over the clients by a Dirichlet draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew import seeds
from unskew.arrays import Array
from unskew.data.partition.deal import from_logs, log_gamma_draws, log_gamma_tables, throw
from unskew.data.partition.family import Family, PartitionTask, above_zero
from unskew.expression import Usual

ALPHA_ENDS = 1e6, 1e-6  # as good as iid, as good as every class at one client
_CELLS = 100_000


@dataclass(frozen=True)
class Dirichlet(Family):
    """Each class is spread over the clients by weights from Dir_K(alpha), each sample thrown on its own.

    The sampler of SEM (its code throws multinomially; rounding the proportions instead loses 0.03 to 0.06 of
    sparsity), of the thesis (section 3.2.3: Dir_10(0.5) with ten classes has EMD 0.86) and of FLea's Dir(mu)
    (its reference for it, Zhang et al., ICML 2022, spreads each class). Sizes differ, the more the smaller
    alpha. There is no closed EMD; it falls from 2 - 2/M - 2(M-1)/(MK) to 0 as ``alpha`` grows.

    ``cap=true``: a client that already holds samples / clients gets nothing of the classes still to come,
    which keeps sizes closer together. FLea's code does so; its paper does not say it.
    """

    alpha: Annotated[float, Usual(0.01, 100, start=0.1, log=True)]
    cap: bool = False
    name: ClassVar[str] = "dirichlet"
    knob: ClassVar[str] = "alpha"
    knob_is_log: ClassVar[bool] = True
    free: ClassVar[Mapping[str, Any]] = {"alpha": 1.0}

    def __post_init__(self) -> None:
        above_zero(self.alpha, "alpha of dirichlet")

    def counts(self, task: PartitionTask) -> Array:
        counts = np.zeros((task.clients, task.classes), np.int64)
        full, held = task.samples / task.clients, np.zeros(task.clients, np.int64)
        for y in task.present:
            logs = log_gamma_draws(self.alpha, (task.clients,), task.generator("weights", int(y)))
            if self.cap:
                logs[held >= full] = -np.inf  # never everyone: until the last class fewer than all are dealt
            counts[:, y] = throw(int(task.sizes[y]), from_logs(logs), task.generator("samples", int(y)))
            held += counts[:, y]
        return counts

    def closed_emd(self, classes: int, clients: int) -> float | None:
        return 0.0 if min(classes, clients) == 1 else None

    def unlimited(self, task: PartitionTask) -> Array:
        if self.cap:
            return super().unlimited(task)
        weights = from_logs(
            log_gamma_draws(self.alpha, (task.classes, task.clients), task.generator("weights"))
        )
        return np.asarray((weights / weights.sum(axis=1, keepdims=True)).T / task.classes)

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return ALPHA_ENDS

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        """Thesis section 3.3: by bisection."""
        if emd == 0:
            return [cls(**{**given, "alpha": ALPHA_ENDS[0]})]
        near = bisect_alpha(lambda alpha: _estimated_emd(alpha, classes, clients), emd)
        return [cls(**{**given, "alpha": near})]

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(**{**given, "alpha": end}) for end in ALPHA_ENDS]


@lru_cache(maxsize=4096)  # bisections begin alike, whatever EMD they look for
def _estimated_emd(alpha: float, classes: int, clients: int) -> float:
    """Of unlimited samples, from draws that are always the same: good to about 0.005."""
    clients = min(clients, 1000)  # the EMD has settled long before (thesis figure 3.1: at 15)
    repeats = max(1, min(500, _CELLS // (classes * clients)))
    rngs = (seeds.borrow_generator(0, "expected emd", i) for i in range(repeats))
    weights = from_logs(log_gamma_tables(alpha, (classes, clients), rngs))
    weights /= weights.sum(axis=2, keepdims=True)
    apart = np.abs(weights - weights.mean(axis=1, keepdims=True)).reshape(repeats, -1)
    return float(sum((apart.sum(axis=1) / classes).tolist()) / repeats)


def bisect_alpha(emd_of: Callable[[float], float], emd: float) -> float:
    """The alpha at which a falling EMD passes ``emd``, to six digits: 24 halvings of its twelve decades."""
    most, least = np.log(ALPHA_ENDS)
    for _ in range(24):
        middle = (most + least) / 2
        if emd_of(float(np.exp(middle))) > emd:
            least = middle
        else:
            most = middle
    return float(np.exp((most + least) / 2))

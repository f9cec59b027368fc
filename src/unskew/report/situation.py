"""The few numbers of a partition that the choice of a remedy turns on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from unskew.core.conditions import Planned
from unskew.metrics import Skew

TEN_CLASSES = 1.8
"""The largest EMD of ten equal classes, 2 - 2/M: the thesis measured its thresholds there."""

STARTS_TO_FALL, FALLS_ON_FASHION, FALLS_FAR = 1.0, 1.2, 1.4
"""EMD where accuracy starts to fall on CIFAR-10, on Fashion-MNIST, and falls far (thesis, 3.4 and 3.5)."""

SCARCE, MILDLY_SCARCE, NOT_SCARCE = 100, 500, 5000
"""Samples a client that FLea (section 2.3.1) calls scarce, mildly scarce and not scarce."""


@dataclass(frozen=True)
class Situation:
    """Numbers derived from the (client x class) counts."""

    clients: int
    classes: int
    emd: float
    ceiling: float  # EMD if every client held a single class
    chance_emd: float  # EMD expected from dealing the same samples blindly to clients of the same sizes
    chance_sparsity: float
    sparsity: float
    scarcity: float
    median_size: float
    single_class: float  # share of clients that hold one class
    all_classes: float  # share of clients that hold every class
    one_class: bool  # all samples, of all clients, are of the same class
    least_emd: float  # of the client nearest to the whole
    planned: Planned  # what a run would do with it

    @classmethod
    def of(cls, counts: npt.NDArray[Any], skew: Skew, **plan: Any) -> Situation:
        """Read it off the counts and their skew; ``plan`` is what a run would be told: cohort, rounds, batch, ..."""
        held = np.count_nonzero(counts, axis=1)
        present = int(np.count_nonzero(counts.sum(axis=0)))
        by_chance = dealt_blindly(counts)
        return cls(
            clients=skew.clients,
            classes=skew.classes,
            emd=skew.emd,
            ceiling=ceiling_of(counts),
            chance_emd=by_chance[0],
            chance_sparsity=by_chance[1],
            sparsity=skew.sparsity,
            scarcity=skew.scarcity["at_most"],
            median_size=float(np.median(skew.sizes)),
            single_class=float(np.mean(held == 1)),
            all_classes=float(np.mean(held == present)),
            one_class=present < 2,
            least_emd=float(np.nanmin(skew.emd_per_client)),
            planned=Planned(counts.sum(axis=1), counts.shape[1], **plan).capped,
        )

    def reaches(self, threshold: float) -> bool:
        """Whether the EMD reaches a threshold of the thesis, scaled down where fewer classes allow less."""
        return self.emd >= self.scaled(threshold) - 0.005  # as it is shown, to two digits

    def scaled(self, threshold: float) -> float:
        """A threshold measured with ten classes, made to fit the ceiling of fewer or of uneven ones."""
        return scaled_to(threshold, self.ceiling)

    @property
    def skewed(self) -> bool:
        """Skewed enough that accuracy starts to fall, and not just by chance."""
        return self.reaches(STARTS_TO_FALL) and not self.by_chance

    @property
    def by_chance(self) -> bool:
        """The EMD is about what blind dealing to clients of these sizes gives."""
        return not beyond_chance(self.emd, self.chance_emd, self.ceiling)


def ceiling_of(counts: npt.NDArray[Any]) -> float:
    """The EMD that the system had if every client held a single class."""
    share = counts.sum(axis=0) / max(1, counts.sum())
    return float(2 * (1 - np.square(share).sum()))


def scaled_to(threshold: float, ceiling: float) -> float:
    """A threshold measured with ten classes, made to fit the ceiling of fewer or of uneven ones."""
    return threshold * min(1.0, ceiling / TEN_CLASSES)


def is_as_measured(threshold: float, ceiling: float) -> bool:
    """Whether that leaves a threshold about as it was measured."""
    return abs(scaled_to(threshold, ceiling) - threshold) < 0.03


def beyond_chance(emd: float, chance: float, ceiling: float) -> float:
    """The EMD above what blind dealing gives, of the most there can be above it; 0 where it is about the same."""
    return 0.0 if emd <= 1.1 * chance + 0.02 else (emd - chance) / (ceiling - chance)


def dealt_blindly(counts: npt.NDArray[Any]) -> tuple[float, float]:
    """EMD and sparsity expected if the same samples were dealt blindly to clients of the same sizes.

    A client of n out of N samples then holds a hypergeometric number of each class, whose mean deviation has
    a closed form (as De Moivre's for the binomial): 2 v (N - D - n + v) / N * P(v), v = floor(nD/N) + 1.
    Small clients look skewed by chance alone; this is how much.
    """
    sizes = counts.sum(axis=1)
    total = int(sizes.sum())
    if total == 0:
        return 0.0, 1.0
    n, clients = np.unique(sizes, return_counts=True)
    n, clients = n[:, None].astype(np.float64), clients[:, None].astype(np.float64)
    held = counts.sum(axis=0)[None, :].astype(np.float64)
    v = np.floor(n * held / total) + 1
    deviation = 2 * v * (total - held - n + v) / total * np.exp(_log_hypergeometric(v, total, held, n))
    empty = np.exp(_log_hypergeometric(np.zeros_like(v), total, held, n))
    # weights n_k / N times |count - nD/N| / n_k leaves the deviation over N
    return float((clients * deviation).sum() / total), float((clients * empty).sum() / counts.size)


def _log_hypergeometric(
    v: npt.NDArray[np.float64], total: int, held: npt.NDArray[np.float64], n: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    possible = (v <= held) & (v <= n) & (n - v <= total - held)
    safe = np.where(possible, v, np.maximum(0.0, n - (total - held)))

    def log_factorial(
        a: Any,
    ) -> Any:  # of whole numbers; not by scipy, which takes a fifth of a second to load
        return np.asarray(np.frompyfunc(math.lgamma, 1, 1)(np.asarray(a) + 1), np.float64)

    def choose(a: Any, b: Any) -> Any:
        return log_factorial(a) - log_factorial(b) - log_factorial(a - b)

    log = choose(held, safe) + choose(total - held, n - safe) - choose(float(total), n)
    return np.where(possible, log, -np.inf)

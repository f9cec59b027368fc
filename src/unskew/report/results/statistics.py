"""What a few seeds can say: means with intervals, and differences on the seeds that two methods share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unskew.readings import METRICS, Reading
from unskew.report.results.student import chance_beyond, two_sided_limit

CONFIDENCE = 0.95
Spread = Literal["ci", "sd"]
"""What ± is, everywhere in one report: half the 95% interval of the mean, or the standard deviation over seeds."""


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds; ``sd`` (n - 1) and ``half``, half the width of the 95% interval, need two of them."""

    mean: float
    sd: float | None
    half: float | None
    values: tuple[float, ...]
    spread: Spread = "ci"
    metric: Reading = METRICS["accuracy"]  # what it is of, where it is told as one

    @property
    def around(self) -> float | None:
        """What stands after ±."""
        return self.half if self.spread == "ci" else self.sd

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def span(self) -> tuple[float, float]:
        """Mean ± spread where there is one, else the values themselves."""
        if self.around is None:
            return min(self.values), max(self.values)
        return self.mean - self.around, self.mean + self.around

    @property
    def within(self) -> tuple[float, float]:
        """The span as far as a share can lie in it: what is drawn of it."""
        low, high = self.span
        if not self.metric.percent:
            return low, high
        return max(0.0, low), min(1.0, high)


def estimate(
    values: Sequence[float], spread: Spread = "ci", metric: Reading = METRICS["accuracy"]
) -> Estimate:
    """Student's interval: mean +- t(n - 1, 97.5%) sd / sqrt(n)."""
    n = len(values)
    mean = float(np.mean(values))
    if n < 2:
        return Estimate(mean, None, None, tuple(values), spread, metric)
    sd = float(np.std(values, ddof=1))
    return Estimate(mean, sd, _quantile(n) * sd / math.sqrt(n), tuple(values), spread, metric)


@dataclass(frozen=True)
class Difference:
    """Ours minus theirs on the seeds they share. Where there is no interval or p-value, ``why`` says why."""

    mean: float | None
    half: float | None
    p: float | None
    seeds: tuple[int, ...]
    why: str = ""
    sd: float | None = None
    spread: Spread = "ci"
    metric: Reading = METRICS["accuracy"]

    @property
    def around(self) -> float | None:
        """What stands after ±."""
        return self.half if self.spread == "ci" else self.sd

    @property
    def gain(self) -> float | None:
        """What was gained: the mean, turned round where less is better."""
        return None if self.mean is None else self.metric.gain(self.mean)


def paired(
    ours: Mapping[int, float],
    theirs: Mapping[int, float],
    spread: Spread = "ci",
    metric: Reading = METRICS["accuracy"],
) -> Difference:
    """The paired t-test: a seed fixes the data's split and the cohorts, so the same seed is the same draw."""
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        return Difference(None, None, None, (), "they share no seed")
    apart = np.array([ours[s] - theirs[s] for s in seeds])
    mean = float(apart.mean())
    if len(seeds) < 2:
        return Difference(mean, None, None, seeds, "they share one seed; a test needs two", metric=metric)
    if np.ptp(apart) <= 1e-12:
        why = "the difference is the same for every seed; nothing to test"
        return Difference(mean, 0.0, None, seeds, why, 0.0, spread, metric)
    sd = float(apart.std(ddof=1))
    error = sd / math.sqrt(len(seeds))
    p = chance_beyond(mean / error, len(seeds) - 1)
    return Difference(mean, _quantile(len(seeds)) * error, p, seeds, sd=sd, spread=spread, metric=metric)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Holm's correction of several p-values (1979); a missing one stays missing and is not counted."""
    order = sorted((p, at) for at, p in enumerate(values) if p is not None)
    corrected: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (p, at) in enumerate(order):
        least = max(least, min(1.0, p * (len(order) - rank)))
        corrected[at] = least
    return corrected


def _quantile(n: int) -> float:
    return two_sided_limit(1 - CONFIDENCE, n - 1)

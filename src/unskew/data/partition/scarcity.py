"""From a wanted (sparsity, scarcity) pair to Dirichlet's alpha and the share of the data to use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset, check_labels
from unskew.data.partition.dirichlet import ALPHA_ENDS
from unskew.errors import InputError


@dataclass(frozen=True)
class Scarce:
    """``partition(data, f"dirichlet({alpha})", clients, fraction=fraction, min_samples=0)`` has these on average.

    With ``min_samples=1`` clients that would be empty get a sample, so that sparsity is a little lower.
    """

    alpha: float
    fraction: float
    sparsity: float
    scarcity: float


def solve_scarcity(
    data: Dataset | Array | Sequence[int],
    clients: int,
    *,
    sparsity: float,
    scarcity: float,
    threshold: int = 50,
    below: bool = False,
) -> Scarce:
    """The ``dirichlet(alpha)`` and ``fraction`` whose clients have this sparsity and scarcity (SEM, section
    IV-A).

    ``scarcity`` counts clients with at most ``threshold`` samples, or below it (as SEM's code does).
    Nothing is drawn: a client's count of a class is beta-binomial, BetaBin(n_y, alpha, (K-1) alpha), and
    independent between classes, so both expectations are exact sums (before empty clients are repaired).
    A grid over alpha, then two
    nested bisections.
    """
    labels = data.y if isinstance(data, Dataset) else check_labels(data, None, "the labels")
    classes = data.classes if isinstance(data, Dataset) else int(labels.max(initial=0)) + 1
    sizes = np.bincount(labels, minlength=classes)
    for value, name in ((sparsity, "sparsity"), (scarcity, "scarcity")):
        if not 0 < value < 1:
            raise InputError(f"{name} must lie between 0 and 1, not {value:g}")
    if clients < 2:
        raise InputError(f"scarcity is shared out among at least 2 clients, not {clients}")
    limit = threshold - below

    def fraction_for(alpha: float) -> float | None:
        """The least data with at most the wanted scarcity, which falls as more is used."""
        if expected_scarcity(sizes, clients, alpha, limit) > scarcity:
            return None
        low, high = 0.0, 1.0
        for _ in range(24):
            middle = (low + high) / 2
            enough = expected_scarcity(sizes * middle, clients, alpha, limit) <= scarcity
            low, high = (low, middle) if enough else (middle, high)
        return high

    def sparsity_for(alpha: float) -> float | None:
        fraction = fraction_for(alpha)
        return None if fraction is None else expected_sparsity(sizes * fraction, clients, alpha)

    # neither measure need be monotone in alpha along the wanted scarcity, so look everywhere first
    alphas = np.geomspace(*ALPHA_ENDS, 49).tolist()
    possible = [fraction_for(alpha) is not None for alpha in alphas]
    for i in range(1, len(alphas)):
        if possible[i] != possible[i - 1]:
            alphas.append(_edge(alphas[i - possible[i - 1]], alphas[i - possible[i]], fraction_for))
    found = [(a, got) for a in sorted(alphas, reverse=True) if (got := sparsity_for(a)) is not None]
    if not found:
        raise InputError(
            f"{clients} clients with all {len(labels)} samples are scarcer than {scarcity:g} at any skew; "
            "take fewer clients or a higher scarcity"
        )
    near = next((i for i in range(1, len(found)) if _between(found[i - 1][1], sparsity, found[i][1])), None)
    if near is None:
        low, high = min(got for _, got in found), max(got for _, got in found)
        raise InputError(
            f"no dirichlet split of these labels over {clients} clients has scarcity {scarcity:g} and "
            f"sparsity {sparsity:g}; with that scarcity its sparsity is {low:.2f} to {high:.2f}"
        )
    (here, at_here), (there, _) = found[near - 1], found[near]
    for _ in range(24):
        middle = float(np.sqrt(here * there))
        got = sparsity_for(middle)
        if got is None or _between(at_here, sparsity, got):
            there = middle
        else:
            here, at_here = middle, got
    fraction = fraction_for(here) or 1.0
    return Scarce(
        here,
        fraction,
        expected_sparsity(sizes * fraction, clients, here),
        expected_scarcity(sizes * fraction, clients, here, limit),
    )


def _edge(possible: float, impossible: float, fraction_for: Callable[[float], float | None]) -> float:
    """The last alpha, on the way from a possible to an impossible one, that still has a fraction."""
    for _ in range(24):
        middle = float(np.sqrt(possible * impossible))
        if fraction_for(middle) is None:
            impossible = middle
        else:
            possible = middle
    return possible


def _between(first: float, value: float, second: float) -> bool:
    return min(first, second) <= value <= max(first, second)


def expected_sparsity(sizes: Array, clients: int, alpha: float) -> float:
    """The mean share of empty cells: the mean over classes of BetaBin(n_y, alpha, (K-1) alpha) at 0."""
    return float(np.mean(_chances(sizes, clients, alpha, 0)[:, 0]))


def expected_scarcity(sizes: Array, clients: int, alpha: float, limit: int) -> float:
    """The chance that a client holds at most ``limit`` samples: the classes' distributions convolved."""
    distinct, times = np.unique(sizes, return_counts=True)
    total = np.zeros(limit + 1)
    total[0] = 1
    for chances, power in zip(_chances(distinct, clients, alpha, limit), times.tolist(), strict=True):
        while power:  # convolved with itself by squaring: a hundred equal classes take seven steps
            if power % 2:
                total = np.convolve(total, chances)[: limit + 1]
            chances, power = np.convolve(chances, chances)[: limit + 1], power // 2
    return float(min(1.0, total.sum()))


def _chances(sizes: Array, clients: int, alpha: float, most: int) -> Array:
    """BetaBin(n_y, alpha, (K-1) alpha) at 0..most, a row per class."""
    from scipy.special import betaln, gammaln

    n = np.asarray(sizes, np.float64)[:, None]
    h = np.arange(most + 1.0)
    a, b = alpha, (clients - 1) * alpha
    possible = h <= n
    h = np.where(possible, h, 0.0)
    ways = gammaln(n + 1) - gammaln(h + 1) - gammaln(n - h + 1)
    return np.where(possible, np.exp(ways + betaln(h + a, n - h + b) - betaln(a, b)), 0.0)

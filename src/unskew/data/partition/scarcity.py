"""From a wanted (sparsity, scarcity) pair to Dirichlet's alpha and the share of the data to use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unskew.data.dataset import Array, Dataset, checked_labels
from unskew.data.partition.dirichlet import ALPHA_ENDS
from unskew.errors import InputError


@dataclass(frozen=True)
class Scarce:
    """``partition(data, f"dirichlet({alpha})", clients, fraction=fraction)`` has these on average."""

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
    Two nested bisections.
    """
    labels = data.y if isinstance(data, Dataset) else checked_labels(data, None, "the labels")
    classes = data.classes if isinstance(data, Dataset) else int(labels.max(initial=0)) + 1
    sizes = np.bincount(labels, minlength=classes)
    for value, name in ((sparsity, "sparsity"), (scarcity, "scarcity")):
        if not 0 < value < 1:
            raise InputError(f"{name} must lie between 0 and 1, not {value:g}")
    if clients < 2:
        raise InputError(f"scarcity is shared out among at least 2 clients, not {clients}")
    limit = threshold - below

    def fraction_for(alpha: float) -> float:
        low, high = 0.0, 1.0  # scarcity falls as more data is used
        for _ in range(30):
            middle = (low + high) / 2
            if expected_scarcity(sizes * middle, clients, alpha, limit) > scarcity:
                low = middle
            else:
                high = middle
        return high

    def sparsity_for(alpha: float) -> float:
        return expected_sparsity(sizes * fraction_for(alpha), clients, alpha)

    # where even all the data leaves more scarce clients than wanted, alpha is too small
    least, most = (float(np.log(a)) for a in ALPHA_ENDS)
    for _ in range(30):
        middle = (least + most) / 2
        if expected_scarcity(sizes, clients, float(np.exp(middle)), limit) > scarcity:
            most = middle
        else:
            least = middle
    most, least = least, float(np.log(ALPHA_ENDS[0]))
    reach = sparsity_for(float(np.exp(least))), sparsity_for(float(np.exp(most)))
    if not min(reach) - 1e-3 <= sparsity <= max(reach) + 1e-3:
        raise InputError(
            f"no dirichlet split of these labels over {clients} clients has scarcity {scarcity:g} and "
            f"sparsity {sparsity:g}; with that scarcity its sparsity is {min(reach):.2f} to {max(reach):.2f}"
        )
    for _ in range(30):
        middle = (least + most) / 2
        if sparsity_for(float(np.exp(middle))) < sparsity:
            least = middle
        else:
            most = middle
    alpha = float(np.exp((least + most) / 2))
    fraction = fraction_for(alpha)
    return Scarce(
        alpha,
        fraction,
        expected_sparsity(sizes * fraction, clients, alpha),
        expected_scarcity(sizes * fraction, clients, alpha, limit),
    )


def expected_sparsity(sizes: Array, clients: int, alpha: float) -> float:
    """The mean share of empty cells: the mean over classes of BetaBin(n_y, alpha, (K-1) alpha) at 0."""
    return float(np.mean(_chances(sizes, clients, alpha, 0)[:, 0]))


def expected_scarcity(sizes: Array, clients: int, alpha: float, limit: int) -> float:
    """The chance that a client holds at most ``limit`` samples: the classes' distributions convolved."""
    total = np.zeros(limit + 1)
    total[0] = 1
    for chances in _chances(sizes, clients, alpha, limit):
        total = np.convolve(total, chances)[: limit + 1]
    return float(min(1.0, total.sum()))


def _chances(sizes: Array, clients: int, alpha: float, most: int) -> Array:
    """BetaBin(n_y, alpha, (K-1) alpha) at 0..most, a row a class."""
    from scipy.special import betaln, gammaln

    n = np.asarray(sizes, np.float64)[:, None]
    h = np.arange(most + 1.0)
    a, b = alpha, (clients - 1) * alpha
    possible = h <= n
    h = np.where(possible, h, 0.0)
    ways = gammaln(n + 1) - gammaln(h + 1) - gammaln(n - h + 1)
    return np.where(possible, np.exp(ways + betaln(h + a, n - h + b) - betaln(a, b)), 0.0)

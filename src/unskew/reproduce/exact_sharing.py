"""The best clustering there is, by integer programming: an oracle for small instances of DACA's problem (11).

Variables: y[m, j] = 1 if client m is a head that sends j samples, x[c, m, j] = 1 if client c gets them. One volume a
head at most; a client is a head or the member of one head or neither; a member's link carries j samples in time.
The normalised system EMD is a ratio of two sums, (sum n~ d~) / (sum n~), so the program is solved for
sum n~ d~ - value x sum n~ until value stands still (Dinkelbach 1967); eq. 5 as printed is one program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_matrix

from unskew.arrays import Array
from unskew.network import Wireless
from unskew.seeds import generator

BITS = 6276  # of an MNIST sample


def small(
    seed: int, clients: int, classes: int = 4, samples: int = 12, seconds: float = 0.15
) -> tuple[Array, Array, Array, Array, Array]:
    """Users of one class and a few of all, few enough to solve: counts, closeness, rates, links, samples in time."""
    rng = generator(seed, "small")
    counts = np.zeros((clients, classes), np.int64)
    for k in range(clients):
        one = k >= max(1, clients // 6)
        counts[k] = rng.multinomial(
            samples, np.eye(classes)[rng.integers(classes)] if one else [1 / classes] * classes
        )
    network = Wireless(snr=10)
    trust, rates = network.trust(clients, seed), network.rates(clients, seed)
    linked = (trust >= 0.5) & (rates >= BITS / seconds)
    np.fill_diagonal(linked, False)
    in_time = np.minimum(np.floor(seconds * rates / BITS + 1e-9), samples)
    return counts, trust, rates, linked, in_time


def best_emd(counts: Array, linked: Array, in_time: Array, *, printed: bool = False) -> float:
    """The lowest system EMD (eq. 5, normalised or as printed) over all clusters and volumes."""
    clients = len(counts)
    sizes = counts.sum(1)
    p_g = counts.sum(0) / counts.sum()
    heads = [(m, j) for m in range(clients) for j in range(1, int(in_time[m][linked[m]].max(initial=0)) + 1)]
    joins = [
        (c, at)
        for at, (m, j) in enumerate(heads)
        for c in range(clients)
        if linked[m, c] and j <= in_time[m, c]
    ]
    alone = np.abs(counts - sizes[:, None] * p_g).sum(1)  # n_k d_k
    gain = np.zeros(len(joins))
    more = np.zeros(len(joins))
    for i, (c, at) in enumerate(joins):
        m, j = heads[at]
        after = counts[c] + j * counts[m] / sizes[m]  # eq. 3 and 4
        gain[i] = np.abs(after - after.sum() * p_g).sum() - alone[c]
        more[i] = j
    rules = _rules(clients, heads, joins)
    before, total = float(alone.sum()), float(sizes.sum())
    if not joins:
        return before / total
    if printed:
        return (before + _solved(len(heads), gain, rules)[0]) / total
    value = before / total
    for _ in range(30):
        _, x = _solved(len(heads), gain - value * more, rules)
        found = (before + float(gain @ x)) / (total + float(more @ x))
        if value - found < 1e-9:
            break
        value = found
    return value


def _rules(clients: int, heads: list[Any], joins: list[Any]) -> LinearConstraint:
    """Rows of (coefficients, upper bound)."""
    width = len(heads)
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    bounds: list[float] = []

    def rule(terms: list[tuple[int, float]], most: float) -> None:
        for column, value in terms:
            rows.append(len(bounds))
            columns.append(column)
            values.append(value)
        bounds.append(most)

    for k in range(clients):  # head with one volume, or member once, or neither
        own = [(at, 1.0) for at, (m, _) in enumerate(heads) if m == k]
        rule(own + [(width + i, 1.0) for i, (c, _) in enumerate(joins) if c == k], 1.0)
    for i, (_, at) in enumerate(joins):
        rule([(width + i, 1.0), (at, -1.0)], 0.0)
    shape = (len(bounds), width + len(joins))
    return LinearConstraint(csr_matrix((values, (rows, columns)), shape), -np.inf, bounds)


def _solved(heads: int, cost: Array, rules: LinearConstraint) -> tuple[float, Array]:
    objective = np.concatenate([np.zeros(heads), cost])
    found = milp(
        objective, constraints=rules, integrality=np.ones(len(objective), np.int64), bounds=Bounds(0, 1)
    )
    assert found.success, found.message
    return float(found.fun), np.round(found.x[heads:])

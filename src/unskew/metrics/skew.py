"""How skewed and how scarce: one (client x class) count matrix in, every measure of the papers out.

Symbols: client k holds n_k of the n samples, p_k is its label distribution, p the reference, which is the
label distribution of all clients together unless another is given. Logarithms are natural, so divergences and
entropies are in nats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unskew.arrays import Array, in_few_bytes
from unskew.errors import InputError

PAIRWISE_LIMIT = 20_000  # clients; the matrix of pairs then takes 3.2 GB
_BLOCK_CELLS = 1 << 18  # rows whose measures are added up together
_CACHE_CELLS = 1 << 15  # of them, as many as stay in the processor's cache are measured at a time


@dataclass(frozen=True, eq=False)
class Skew:
    """The measures of one count matrix. A client without samples has no distribution: NaN in the per-client
    arrays, ``None`` in ``as_dict``, no weight in the system's numbers.

    ``emd``: sum_k n_k/n sum_i |p_k(i) - p(i)| (thesis eq. 3.3, DACA eq. 2), 0 to 2.
    ``kld``: sum_k n_k/n KL(p_k || p), in nats. The thesis prints the ratio of eq. 3.2 upside down; this is
    sum_i p_k(i) log(p_k(i) / p(i)), where a class that the client lacks adds 0.
    ``jsd``: sum_k n_k/n JSD(p_k, p), in nats, 0 to log 2.
    ``entropy``: sum_k n_k/n H(p_k), in nats; ``entropy_pooled`` is H of all clients' samples together, so
    that
    ``kld = entropy_pooled - entropy`` where no other reference is given.
    ``sparsity``: share of empty cells of the matrix (SEM, section IV-A).
    ``scarcity``: share of clients with ``at_most`` T samples (SEM's words) and ``below`` T (SEM's code).
    ``gini``: inequality of the clients' sizes, 0 when all are equal.
    """

    emd: float
    kld: float
    jsd: float
    entropy: float
    entropy_pooled: float
    sparsity: float
    scarcity: dict[str, float]
    gini: float
    clients: int
    samples: int
    classes: int
    sizes: Array
    emd_per_client: Array
    kld_per_client: Array
    jsd_per_client: Array
    entropy_per_client: Array

    def as_dict(self, *, per_client: bool = True) -> dict[str, Any]:
        """Everything as plain numbers and lists that JSON can hold; the arrays only if ``per_client``."""
        said: dict[str, Any] = {}
        for name, value in vars(self).items():
            if not isinstance(value, np.ndarray):
                said[name] = dict(value) if isinstance(value, dict) else value
            elif per_client:
                said[name] = [None if math.isnan(v) else v for v in value.tolist()]
        return said


def skew(
    counts: Array | Sequence[Any],
    *,
    scarce: int = 50,
    reference: Array | None = None,
    per_client: bool = True,
) -> Skew:
    """Measure a (client x class) matrix of label counts.

    ``scarce`` is SEM's threshold T. ``reference`` is the distribution (or counts) that clients are compared
    with; by default that of all their samples together. ``per_client=False`` leaves the arrays empty that have a
    number for each client.
    """
    table = _checked(counts)
    clients, classes = table.shape
    sizes = _row_sums(table)
    pooled = table.sum(axis=0, dtype=np.int64)
    samples = int(pooled.sum())
    if not samples:
        raise InputError("there is nothing to measure: the count matrix holds no samples")
    p = pooled / samples if reference is None else _distribution(reference, "the reference")
    if len(p) != classes:
        raise InputError(f"the reference has {len(p)} classes but the count matrix has {classes}")
    if np.any((p == 0) & (pooled > 0)):
        lacking = int(np.flatnonzero((p == 0) & (pooled > 0))[0])
        raise InputError(f"the reference gives class {lacking} no weight, but clients hold samples of it")
    every = np.empty((4, clients if per_client else 0))
    system, empty = np.zeros(4), 0
    for rows in _blocks(clients, classes):
        block, wide = table[rows], sizes[rows].astype(np.int64, copy=False)
        few = _blocks(len(block), classes, _CACHE_CELLS)
        found = np.concatenate([_measured(block[some], wide[some], p) for some in few], axis=1)
        held = wide > 0
        weights = wide[held] / samples
        system += [weights @ one[held] for one in found]
        empty += block.size - int(np.count_nonzero(block))
        if per_client:
            every[:, rows] = found
    emds, klds, jsds, entropies = every
    return Skew(
        emd=float(system[0]),
        kld=max(0.0, float(system[1])),
        jsd=max(0.0, float(system[2])),
        entropy=max(0.0, float(system[3])),
        entropy_pooled=max(0.0, float(-_divergence(pooled[None] / samples, np.ones(classes))[0])),
        sparsity=empty / table.size,
        scarcity={
            "threshold": scarce,
            "at_most": float((sizes <= scarce).mean()),
            "below": float((sizes < scarce).mean()),
        },
        gini=_gini(sizes),
        clients=clients,
        samples=samples,
        classes=classes,
        sizes=(sizes if per_client else sizes[:0]).astype(np.int64, copy=False),
        emd_per_client=emds,
        kld_per_client=klds,
        jsd_per_client=jsds,
        entropy_per_client=entropies,
    )


def _measured(counts: Array, sizes: Array, p: Array) -> Array:
    """EMD, KLD and JSD of these clients' distributions from ``p``, and their entropies: a row a measure."""
    with np.errstate(invalid="ignore", divide="ignore"):
        p_k = counts / sizes[:, None]
    middle = (p_k + p) / 2
    apart = (_divergence(p_k, middle) + _divergence(np.broadcast_to(p, p_k.shape), middle)) / 2
    distance, entropies = np.abs(p_k - p).sum(axis=1), -_divergence(p_k, np.ones(len(p)))
    return np.stack([distance, _divergence(p_k, p), apart, entropies])


def _row_sums(table: Array) -> Array:
    """How many samples each client holds, in few bytes where clients are many."""
    (clients, classes), most = table.shape, int(table.max()) * table.shape[1]
    sums = (table[rows].sum(axis=1, dtype=np.int64) for rows in _blocks(clients, classes))
    return np.concatenate([in_few_bytes(some, most, of=clients) for some in sums])


def system_emd(counts: Array) -> float:
    """The system's EMD alone (thesis eq. 3.3), without the cost of the other measures."""
    return system_emd_of(counts.__getitem__, *counts.shape)


def system_emd_of(counts_of: Callable[[slice], Array], clients: int, classes: int) -> float:
    """The same of clients whose label counts are looked at twice, some at a time, and are never all there."""
    pooled = np.zeros(classes, np.int64)
    for rows in _blocks(clients, classes):
        pooled += counts_of(rows).sum(axis=0, dtype=np.int64)
    samples = int(pooled.sum())
    p = pooled / max(1, samples)
    moved = 0.0
    for held in map(counts_of, _blocks(clients, classes)):
        # n_k |p_k - p| = |c_k - n_k p|: no division, so an empty client needs no special case
        apart = held.sum(axis=1, keepdims=True, dtype=np.int64) * p
        np.subtract(held, apart, out=apart)
        moved += float(np.abs(apart, out=apart).sum())
    return moved / max(1, samples)


def emd(p: Array | Sequence[float], q: Array | Sequence[float]) -> float:
    """The L1 distance of two label distributions, given as probabilities or as counts; 0 to 2."""
    first, second = _distribution(p, "the first distribution"), _distribution(q, "the second distribution")
    if len(first) != len(second):
        raise InputError(f"cannot compare distributions over {len(first)} and {len(second)} classes")
    return float(np.abs(first - second).sum())


def pairwise_emd(counts: Array | Sequence[Any]) -> Array:
    """The matrix of EMDs between every two clients' label distributions (DACA eq. 14); NaN for empty ones."""
    table = _checked(counts)
    if len(table) > PAIRWISE_LIMIT:
        raise InputError(
            f"the pairs of {len(table)} clients do not fit in memory; take at most {PAIRWISE_LIMIT} of them"
        )
    from scipy.spatial.distance import cdist  # here, because training needs this file but not scipy

    with np.errstate(invalid="ignore", divide="ignore"):
        p_k = table / table.sum(axis=1, keepdims=True)
    return np.asarray(cdist(p_k, p_k, "cityblock"))


def _checked(counts: Array | Sequence[Any]) -> Array:
    table = np.asarray(counts)
    if table.ndim != 2 or not table.size:
        raise InputError(
            f"counts must be a matrix with a row a client and a column a class, not of shape {table.shape}"
        )
    if table.dtype.kind not in "iub":
        if table.dtype.kind != "f" or not np.all(np.isfinite(table)) or np.any(table != np.floor(table)):
            raise InputError(f"counts must be whole numbers, not {table.dtype}")
        table = table.astype(np.int64)
    if table.min() < 0:
        raise InputError("counts must not be negative")
    return table


def _distribution(values: Array | Sequence[float], where: str) -> Array:
    weights = np.asarray(values, np.float64)
    total = weights.sum()
    if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0) or total <= 0:
        raise InputError(f"{where} must be one number of at least 0 a class, with a sum above 0")
    return np.asarray(weights / total)


def _divergence(p: Array, q: Array) -> Array:
    """Row by row sum p log(p / q), where p = 0 adds 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        terms = p * np.log(p / q)
    terms[p == 0] = 0
    return np.asarray(terms.sum(axis=1))


def _gini(sizes: Array) -> float:
    """Sum of rank x size over n clients, the i-th smallest of rank 2i - n - 1, divided by n x all their sizes."""
    values, times = np.unique(sizes, return_counts=True)
    n, before, total = len(sizes), 0, 0
    for value, many in zip(values.tolist(), times.tolist(), strict=True):
        total += value * many * (2 * before + many - n)  # of the ranks of equal sizes, one after the other
        before += many
    return float(total / (n * int(sizes.sum(dtype=np.int64))))


def _blocks(rows: int, columns: int, cells: int = _BLOCK_CELLS) -> Iterator[slice]:
    step = max(1, cells // max(1, columns))
    return (slice(start, start + step) for start in range(0, rows, step))

"""The arithmetic of dealing: exact shares, independent draws, Dirichlet weights, and samples to clients."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from unskew.arrays import Array

_BLOCK_ROWS = 1 << 15

LEAST_ALPHA = 1e-100
"""Below this the largest draw outweighs the rest a thousandfold anyway."""


def shares(total: int, weights: Array, rng: np.random.Generator) -> Array:
    """``total`` divided in proportion to ``weights`` as whole numbers: largest remainders, ties by chance."""
    mass = float(weights.sum())
    exact = weights / mass * total if mass > 0 else np.full(len(weights), total / len(weights))
    parts = np.floor(exact + 1e-9).astype(np.int64)
    left = total - int(parts.sum())
    if left > 0:
        order = rng.permutation(len(weights))
        remainders = np.round(exact - parts, 9)[order]  # rounded, so that equal weights tie on any machine
        parts[order[np.argsort(-remainders, kind="stable")[:left]]] += 1
    return parts


def equal_shares(total: int, receivers: int, rng: np.random.Generator) -> Array:
    """``total`` divided into equal whole numbers, the remainder to receivers drawn by chance."""
    parts = np.full(receivers, total // receivers, np.int64)
    parts[rng.permutation(receivers)[: total % receivers]] += 1
    return parts


def throw(total: int, weights: Array, rng: np.random.Generator) -> Array:
    """How many of ``total`` samples land where, each thrown on its own: a multinomial draw.

    By inverting the cumulated weights, so that only ``random`` is asked of the generator and weights of any
    size or number are fine (numpy's own ``multinomial`` refuses sums that round to more than 1).
    """
    edges = np.cumsum(weights)
    landed = rng.random(total)
    landed *= edges[-1]
    landed.sort()
    return np.diff(np.searchsorted(landed, edges, side="left"), prepend=0)


def throw_rows(totals: Array, weights: Array, rng: np.random.Generator) -> Array:
    """The same for many rows: ``totals[k]`` samples thrown by the weights ``weights[k]``."""
    rows, columns = weights.shape
    counts = np.zeros((rows, columns), np.int64)
    for start in range(0, rows, _BLOCK_ROWS):
        block = slice(start, start + _BLOCK_ROWS)
        edges = np.cumsum(weights[block], axis=1)
        edges /= edges[:, -1:]
        here = np.arange(len(edges))
        row = np.repeat(here, totals[block])
        # one sorted list of edges for the whole block: row r owns the interval r to r + 1
        cell = np.searchsorted((edges + here[:, None]).ravel(), row + rng.random(len(row)), side="right")
        cell = np.minimum(cell, row * columns + columns - 1)
        counts[block] = np.bincount(cell, minlength=edges.size).reshape(edges.shape)
    return counts


def log_gamma_draws(alpha: float | Array, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Logarithms of Gamma(alpha) draws; they are Dirichlet weights once exponentiated and normalised.

    Gamma(alpha) = Gamma(alpha + 1) U^(1/alpha), and in logarithms nothing underflows: at alpha = 1e-6 nearly
    every plain draw would be 0, and a client or class with only zeros has no distribution at all.
    """
    alpha = np.maximum(alpha, LEAST_ALPHA)
    return _in_logs(alpha, rng.standard_gamma(alpha + 1, shape), rng.random(shape))


def log_gamma_tables(alpha: float, shape: tuple[int, ...], rngs: Iterable[np.random.Generator]) -> Array:
    """The same of several generators, one table each: logarithms of many small tables are faster taken at once."""
    alpha = max(alpha, LEAST_ALPHA)
    drawn = [(rng.standard_gamma(alpha + 1, shape), rng.random(shape)) for rng in rngs]
    return _in_logs(alpha, *map(np.stack, zip(*drawn, strict=True)))


def _in_logs(alpha: float | Array, gammas: Array, uniform: Array) -> Array:
    draws = np.log(gammas)
    draws += np.log1p(-uniform) / alpha
    return draws


def from_logs(logs: Array) -> Array:
    """Weights from their logarithms along the last axis; the largest is 1."""
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)))


def scatter(counts: Array, pool: Array) -> tuple[Array, Array]:
    """Deal ``pool`` (samples class by class, shuffled within each) by ``counts``: indices and offsets."""
    offsets = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
    indices = np.empty_like(pool)
    begin = offsets[:-1].copy()  # where the next class of each client goes
    taken = 0
    for y in range(counts.shape[1]):
        column = counts[:, y]
        size = int(column.sum())
        # the i-th sample of a class goes to place i + (its client's begin - the client's first i)
        first = np.cumsum(column) - column
        indices[np.repeat(begin - first, column) + np.arange(size)] = pool[taken : taken + size]
        begin += column
        taken += size
    return indices, offsets

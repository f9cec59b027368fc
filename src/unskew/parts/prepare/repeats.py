"""How many samples ``oversample`` has clients repeat, and how many all the clients before one repeat together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.arrays import Array, in_few_bytes
from unskew.core.types import Ids


def lifted_to(sizes: Array, classes: int, decay: float) -> Array:
    """The level that held classes are lifted to at clients of these sizes: ``decay`` of the mean class."""
    return np.asarray(np.ceil(sizes / classes * decay - 1e-9))


def additions(counts: Array, decay: float) -> Array:
    """How many samples of each class each client repeats: held classes are lifted to ``decay`` of its mean class."""
    level = lifted_to(counts.sum(1, keepdims=True), counts.shape[1], decay)
    return np.where(counts > 0, np.maximum(0, level - counts), 0).astype(np.int64)


@dataclass(frozen=True, eq=False)
class RunningSums:
    """How many samples all clients before one repeat, at any decay up to 1, without a walk through all of them.

    The level depends on a client's size alone, and sizes are few however many clients there are. So clients are grouped
    by size, and every group has a table: for each whole level, how many samples its first clients repeat.
    """

    counts: Array
    sizes: Array  # [groups]
    keys: Array  # [clients], sorted: the group of a client times all clients, plus its number
    first: Array  # [groups], where a group begins in ``keys``
    levels: Array  # [groups], how wide a group's table is
    start: Array  # [groups], where it begins in ``tables``
    tables: Array

    @staticmethod
    def of(counts: Array) -> RunningSums:
        clients, classes = counts.shape
        sizes, group = np.unique(counts.sum(1), return_inverse=True)
        order = np.argsort(group, kind="stable")
        first = np.searchsorted(group[order], np.arange(len(sizes)))
        levels = lifted_to(sizes, classes, 1.0).astype(np.int64) + 1
        lengths = np.diff(first, append=clients) + 1  # a row for nobody, then one for each client
        ends = np.cumsum(lengths * levels)
        start = ends - lengths * levels
        most = int(lengths @ (levels * classes))  # no sum is larger
        flat = np.zeros(int(ends[-1]), in_few_bytes(order, most).dtype)
        for begin, length, wide, at in zip(
            *(v.tolist() for v in (first, lengths, levels, start)), strict=True
        ):
            members = order[begin : begin + length - 1]
            table = flat[at : at + length * wide].reshape(length, wide)
            for label in range(classes):
                held = counts[members, label]
                repeats = np.flatnonzero((held > 0) & (held < wide))
                table[1 + repeats, held[repeats]] += 1
            # a level higher by one repeats one sample more of every held class that is not above it
            np.cumsum(table, axis=1, out=table)
            table[:, 1:] = np.cumsum(table, axis=1)[:, :-1]
            table[:, 0] = 0
            np.cumsum(table, axis=0, out=table)
        return RunningSums(counts, sizes, group[order] * clients + order, first, levels, start, flat)

    def before(self, clients: Ids, decay: float) -> Array:
        """How many samples all clients of lower numbers repeat, for each of these clients."""
        everyone, groups = len(self.keys), len(self.sizes)
        if len(clients) * groups > everyone:  # then a walk through all is shorter
            every = additions(self.counts, decay).sum(1)
            return np.asarray((np.cumsum(every) - every)[clients])
        level = lifted_to(self.sizes, self.counts.shape[1], decay).astype(np.int64)
        among = np.searchsorted(self.keys, np.arange(groups)[:, None] * everyone + clients)
        row = among - self.first[:, None]
        return np.asarray(
            self.tables[self.start[:, None] + row * self.levels[:, None] + level[:, None]].sum(
                0, dtype=np.int64
            )
        )

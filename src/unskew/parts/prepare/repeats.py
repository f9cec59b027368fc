"""How many samples ``oversample`` has clients repeat, and how many all the clients before one repeat together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from unskew.arrays import MANY_ROWS, NUMBERS_AT_ONCE, Array, in_few_bytes
from unskew.core.roster import Roster
from unskew.core.types import Ids

MOST_SUMS = 1 << 18
"""Running sums that are kept, however many clients there are; or one for every ``SAMPLES_A_SUM`` samples, if that is
more."""
SAMPLES_A_SUM = 32

CLIENTS_ASKED = 20
"""Clients that a round asks for, about."""


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

    The level depends on a client's size alone, and common sizes are few however many clients there are. So for every
    common size and every whole level, sums are kept: how many samples the clients of that size repeat that come before
    every ``stride``-th client. The clients between that one and the one asked for are looked at, and so are all clients
    of rare sizes. Memory is bounded (``MOST_SUMS``): with more clients, or more common sizes, the stride is longer.
    """

    stride: int
    sizes: Array  # [sizes], the common ones
    start: Array  # [sizes], the column of level 0
    sums: Array  # [every stride-th client, columns]
    rare: Ids  # clients of other sizes
    rare_counts: Array  # [rare, classes]

    @staticmethod
    def of(roster: Roster) -> RunningSums:
        classes = roster.dataset.classes
        sizes, members = _sizes(roster)
        cells = max(MOST_SUMS, int(sizes @ members) // SAMPLES_A_SUM)
        levels = lifted_to(sizes, classes, 1.0).astype(np.int64) + 1
        # a size has a column a level, which make the stride longer: only where that has fewer clients looked at
        common = members >= levels * CLIENTS_ASKED / 2 * roster.clients / cells
        sizes, levels = sizes[common], levels[common]
        start, width = np.cumsum(levels) - levels, int(levels.sum())
        stride = max(1, -(-roster.clients * width // cells))
        sums = np.zeros((roster.clients // stride + 2, width), np.int64)
        rare: list[Ids] = []
        first = 0
        for held in roster.count_blocks():
            # how often a class of so many samples is held, by size and by the stretch that a client is in
            size = held.sum(1)
            usual = np.isin(size, sizes)
            rare.append(first + np.flatnonzero(~usual))
            group = np.searchsorted(sizes, size[usual])
            who, label = np.nonzero((held[usual] > 0) & (held[usual] < levels[group, None]))
            row = (first + np.flatnonzero(usual)[who]) // stride
            cell = (row - first // stride) * width + start[group[who]] + held[usual][who, label]
            rows = (first + len(held) - 1) // stride - first // stride + 1
            found = np.bincount(cell, minlength=rows * width).reshape(rows, width)
            sums[first // stride + 1 :][:rows] += found  # of the clients before the next stride
            first += len(held)
        for begin, wide in zip(start.tolist(), levels.tolist(), strict=True):
            # a level higher by one repeats one sample more of every held class that is not above it
            table = sums[:, begin : begin + wide]
            np.cumsum(table, axis=1, out=table)
            table[:, 1:] = np.cumsum(table, axis=1)[:, :-1]
            table[:, 0] = 0
        np.cumsum(sums, axis=0, out=sums)
        sums, others = in_few_bytes(sums, int(sums.max(initial=0)), of=MANY_ROWS), np.concatenate(rare)
        return RunningSums(stride, sizes, start, sums, others, roster.look_at_counts(others))

    def before(self, clients: Ids, decay: float, roster: Roster) -> Array:
        """How many samples all clients of lower numbers repeat, for each of these clients of the roster."""
        if len(clients) * self.stride + len(self.rare) > roster.clients:  # then a walk through all is shorter
            every = np.concatenate([additions(held, decay).sum(1) for held in roster.count_blocks()])
            return np.asarray((np.cumsum(every) - every)[clients])
        row, left = clients // self.stride, clients % self.stride
        column = self.start + lifted_to(self.sizes, roster.dataset.classes, decay).astype(np.int64)
        found = self.sums[row[:, None], column].sum(1, dtype=np.int64)
        owner = np.repeat(np.arange(len(clients)), left)
        between = np.arange(len(owner)) - np.repeat(np.cumsum(left) - clients, left)
        step = max(1, NUMBERS_AT_ONCE // roster.dataset.classes)
        for some in (slice(at, at + step) for at in range(0, len(owner), step)):
            held = roster.counts_of(between[some])
            more = additions(held, decay).sum(1)
            np.add.at(found, owner[some], np.where(np.isin(held.sum(1), self.sizes), more, 0))
        if len(self.rare):
            ends = np.cumsum(additions(self.rare_counts.astype(np.int64, copy=False), decay).sum(1))
            found += np.concatenate([[0], ends])[np.searchsorted(self.rare, clients)]
        return np.asarray(found)


def _sizes(roster: Roster) -> tuple[Ids, Ids]:
    """The sizes that clients have, and how many clients have each."""
    members: Counter[int] = Counter()
    for held in roster.count_blocks():
        here = np.unique(held.sum(1), return_counts=True)
        members.update(dict(zip(*(values.tolist() for values in here), strict=True)))
    sizes = np.array(sorted(members), np.int64)
    return sizes, np.array([members[size] for size in sizes.tolist()], np.int64)

"""No client with too few samples: the fewest are moved, from the largest clients."""

from __future__ import annotations

import numpy as np

from unskew.arrays import Array


def repair(counts: Array, least: int, rng: np.random.Generator) -> tuple[Array, int, int]:
    """Counts in which every client holds at least ``least`` samples, the samples moved, the clients helped.

    What is missing is taken one by one from whoever is largest at that moment (here in one step, as a
    common level to which the largest are cut), each giving random samples of its own. Receivers get runs of
    one giver's samples, class by class, so that clients stay sparse. The caller has checked that there are
    enough samples.
    """
    sizes = counts.sum(axis=1)
    need = np.maximum(least - sizes, 0)
    missing = int(need.sum())
    if not missing:
        return counts, 0, 0
    give = _from_the_largest(sizes, missing, rng)
    givers, receivers = np.flatnonzero(give), np.flatnonzero(need)
    cell = np.repeat(np.arange(counts[givers].size), counts[givers].ravel())  # one entry per sample
    owner = cell // counts.shape[1]
    order = np.lexsort((rng.random(len(cell)), owner))  # each giver's samples shuffled
    rank = np.arange(len(cell)) - np.repeat(np.cumsum(sizes[givers]) - sizes[givers], sizes[givers])
    moved = np.sort(cell[order][rank < give[givers][owner[order]]])
    giver, y = np.divmod(moved, counts.shape[1])
    repaired = counts.copy()
    np.subtract.at(repaired, (givers[giver], y), 1)
    np.add.at(repaired, (np.repeat(receivers, need[receivers]), y), 1)
    return repaired, missing, len(receivers)


def _from_the_largest(sizes: Array, missing: int, rng: np.random.Generator) -> Array:
    """How many each client gives: the excess over the highest level that sets enough free."""
    low, high = 0, int(sizes.max())  # cutting to `low` sets enough free, cutting to `high` does not
    while high - low > 1:
        level = (low + high) // 2
        if int(np.maximum(sizes - level, 0).sum()) >= missing:
            low = level
        else:
            high = level
    give = np.maximum(sizes - low, 0)
    spared = int(give.sum()) - missing
    candidates = np.flatnonzero(give)
    give[candidates[rng.permutation(len(candidates))[:spared]]] -= 1
    return np.asarray(give)

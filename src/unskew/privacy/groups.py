"""Groups of samples as clients would average them: with the label mix of one of a run's clients."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.types import Ids
from unskew.data.dataset import Dataset


class Groups:
    """Finds a sample the others that could stand behind an average with it.

    An attacker has no client's samples, but may know how skewed clients are. So a group is: a sample, one of the
    run's clients that could hold it (by how many of its label each holds), and others with labels drawn as that
    client's are, from the pool or from the test set. With skewed clients an average then says more of each sample
    than one over the whole pool would.
    """

    def __init__(self, counts: Array, own: Dataset) -> None:
        """``counts``: how many of each class every client holds; ``own``: the attacker's samples."""
        counts = counts.astype(np.float64)
        self.counts = counts[counts.sum(1) > 0]
        self.labels = {False: own.y, True: own.y_test}
        shares = self.counts / self.counts.sum(1, keepdims=True)
        # client k's labels have the stretch from k to k + 1
        self.stretches = (shares.cumsum(1).clip(max=1.0) + np.arange(len(shares))[:, None]).ravel()

    def around(self, places: Ids, size: int, rng: np.random.Generator, test: bool = False) -> Ids:
        """[n, size]: every place, and those that are averaged with it."""
        if size == 1:
            return places[:, None]
        y, classes = np.asarray(self.labels[test]), self.counts.shape[1]
        holder = np.zeros(len(places), np.int64)
        for label in np.unique(y[places]):
            at = np.flatnonzero(y[places] == label)
            held = self.counts[:, label]
            held = held if held.any() else self.counts.sum(1)
            holder[at] = rng.choice(len(held), len(at), p=held / held.sum())
        drawn = holder[:, None] + rng.random((len(places), size - 1))
        labels = (
            np.searchsorted(self.stretches, drawn, side="right").clip(max=len(self.stretches) - 1) % classes
        )
        return np.concatenate([places[:, None], _with(labels, y, classes, rng)], 1)

    def fresh(self, count: int, size: int, rng: np.random.Generator, test: bool = False) -> Ids:
        """So many groups around samples drawn evenly, each at most once where there are enough."""
        pool = len(self.labels[test])
        places = rng.permutation(pool)[:count] if count <= pool else rng.integers(0, pool, count)
        return self.around(places.astype(np.int64), size, rng, test)


def _with(labels: Ids, y: np.ndarray[Any, Any], classes: int, rng: np.random.Generator) -> Ids:
    """A random sample of each of these labels; of any, where there is none of it."""
    order = np.argsort(y, kind="stable")
    many = np.bincount(y, minlength=classes)
    first = many.cumsum() - many
    some = many[labels] > 0
    size, start = np.where(some, many[labels], len(y)), np.where(some, first[labels], 0)
    found: Ids = order[start + (rng.random(labels.shape) * size).astype(np.int64)].astype(np.int64)
    return found

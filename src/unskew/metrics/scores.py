"""Numbers that a classifier is judged by; what each is called, ``unskew.readings`` says.

Where nine samples in ten are of one class, always answering it has 90% accuracy. Balanced accuracy, macro F1 and the
worst class look at every class alike. All but the loss and AUC are worked out of three counts for each class, so that
groups of samples (clients) are judged at once: arrays end in the axis of classes, and what has no number is NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.arrays import Array


@dataclass(frozen=True)
class Counts:
    """Samples that are of each class, that were taken for it, and both: [..., classes]."""

    truths: Array
    guesses: Array
    hits: Array

    @classmethod
    def over(
        cls, truth: Array, guess: Array, classes: int, owner: Array | None = None, groups: int = 1
    ) -> Counts:
        """Of one label and one answer per sample, counted by the group that ``owner`` names: [groups, classes]."""
        at = np.zeros(len(truth), np.int64) if owner is None else owner * classes
        hit = guess == truth
        tables = (at + truth, at + guess, (at + truth)[hit])
        return cls(*(np.bincount(t, minlength=groups * classes).reshape(groups, classes) for t in tables))


def class_accuracies(counts: Counts) -> Array:
    """The share of each class's samples that is right (recall); NaN for a class that has none."""
    return _share(counts.hits, counts.truths)


def accuracy(counts: Counts) -> Array:
    """The share of the samples that is right."""
    return _share(counts.hits.sum(-1), counts.truths.sum(-1))


def balanced_accuracy(counts: Counts) -> Array:
    """The mean of the classes' accuracies, over the classes that have samples."""
    return _mean(class_accuracies(counts), counts.truths > 0)


def macro_f1(counts: Counts) -> Array:
    """The mean of the classes' F1 = 2 hits / (truths + guesses), over classes that are there or were answered."""
    met = counts.truths + counts.guesses
    return _mean(_share(2 * counts.hits, met), met > 0)


def worst_class(counts: Counts) -> Array:
    """The lowest of the classes' accuracies."""
    lowest = np.where(counts.truths > 0, class_accuracies(counts), np.inf).min(-1)
    return np.where(np.isinf(lowest), np.nan, lowest)


def auc(positive: Array, score: Array) -> float:
    """The chance that a positive sample has a higher score than a negative one; equal scores count half.

    By ranks: (sum of the positives' ranks - n+ (n+ + 1) / 2) / (n+ n-), where equal scores share their mean rank.
    NaN where a class has no sample, or a score is NaN.
    """
    positive = np.asarray(positive, bool)
    there, other = int(positive.sum()), int((~positive).sum())
    if not there or not other or np.isnan(score).any():
        return float("nan")
    _, which, times = np.unique(score, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2)[which.reshape(-1)]
    return float((ranks[positive].sum() - there * (there + 1) / 2) / (there * other))


def _share(part: Array, whole: Array) -> Array:
    found: Array = np.where(whole > 0, part / np.maximum(1, whole), np.nan)
    return found


def _mean(values: Array, known: Array) -> Array:
    return _share(np.where(known, values, 0.0).sum(-1), known.sum(-1))

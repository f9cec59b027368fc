"""What a model must beat: the answer that never looks at a sample, always the test set's most frequent class.

Where nine samples in ten are healthy, 90% accuracy is nothing. A run's data says what that answer gets, its result
and every headline say first where a model gets no more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from unskew.data.dataset import Dataset


def most_frequent(dataset: Dataset) -> dict[str, Any]:
    """The test set's most frequent class, and the share of the test samples that has it."""
    counts = np.bincount(dataset.y_test, minlength=dataset.classes)
    at = int(counts.argmax())
    return {"class": str(dataset.labels[at]), "share": float(counts[at] / max(1, counts.sum()))}


def no_better(accuracy: float, known: Mapping[str, Any] | None) -> bool:
    """Whether an accuracy is at most what always answering the most frequent class gets; False if that is not known."""
    return bool(known) and accuracy <= float((known or {})["share"]) + 1e-12


def verdict(known: Mapping[str, Any]) -> str:
    """The sentence that comes first where a model is no better."""
    return (
        f"no better than always answering {' '.join(str(known['class']).split())!r}, the most frequent class "
        f"({float(known['share']):.1%} of the test samples)"
    )

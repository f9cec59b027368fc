"""How far classes lie apart in a feature space: the Davies-Bouldin score."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def davies_bouldin(features: npt.NDArray[Any], labels: npt.NDArray[Any]) -> float:
    """The mean over classes of the worst (s_i + s_j) / d_ij; 0 is best (Davies & Bouldin, IEEE TPAMI 1979).

    s_i is the mean distance of a class's features to their centre, d_ij the distance of two centres, both
    Euclidean. Classes are those that occur; with fewer than two there is no score, and it is NaN.
    """
    x = np.asarray(features, np.float64).reshape(len(labels), -1)
    classes = np.unique(labels)
    if len(classes) < 2:
        return float("nan")
    centres = np.stack([x[labels == c].mean(0) for c in classes])
    spread = np.array(
        [np.linalg.norm(x[labels == c] - m, axis=1).mean() for c, m in zip(classes, centres, strict=True)]
    )
    apart = np.linalg.norm(centres[:, None] - centres[None], axis=2)
    ratio = (spread[:, None] + spread[None]) / np.where(apart > 0, apart, np.inf)
    np.fill_diagonal(ratio, 0)
    return float(ratio.max(1).mean())

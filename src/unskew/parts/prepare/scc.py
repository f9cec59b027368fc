"""DACA's first baseline: clusters around the most trusted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.parts.prepare.clustered import Clustered, ClusterInputs


@dataclass(frozen=True)
class Scc(Clustered):
    """Shares samples of the most trusted clients with those who trust them most (Hu et al., DACA's baseline SCC).

    Social closeness clustering: on DACA's constrained graph heads are the nodes with the largest sum of closeness
    over their links, as few as cover it; a member joins the linked head that it is closest to. The paper says no
    more than this. Volumes and all settings are as in ``daca``.
    """

    name: ClassVar[str] = "scc"
    paper: ClassVar[str] = "DACA (Hu et al.), IV-A (SCC)"
    neutral: ClassVar[str | None] = "scc(e_th=1)"

    def rank(self, given: ClusterInputs) -> Array:
        return -np.asarray((given.closeness * given.linked).sum(1))

    def affinity(self, given: ClusterInputs, heads: list[int]) -> Array:
        return np.asarray(given.closeness[:, heads])

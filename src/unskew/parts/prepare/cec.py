"""DACA's second baseline: clusters around the best connected."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.parts.prepare.clustered import Clustered, ClusterInputs


@dataclass(frozen=True)
class Cec(Clustered):
    """Shares samples of the clients with the fastest links with those they reach fastest (Hu et al., baseline CEC).

    Communication-efficient clustering: on DACA's constrained graph heads are the nodes with the largest sum of rates
    over their links, as few as cover it; a member joins the head with the fastest link to it. The paper says no more
    than this. Volumes and all settings are as in ``daca``.
    """

    name: ClassVar[str] = "cec"
    paper: ClassVar[str] = "DACA (Hu et al.), IV-A (CEC)"
    neutral: ClassVar[str | None] = "cec(e_th=1)"

    def rank(self, given: ClusterInputs) -> Array:
        return -np.asarray((given.rates * given.linked).sum(1))

    def affinity(self, given: ClusterInputs, heads: list[int]) -> Array:
        return np.asarray(given.rates[heads].T)

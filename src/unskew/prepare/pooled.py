"""All data in one place: the upper bound of every table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from unskew.data.federation import Federation
from unskew.parts import Prepare


@dataclass(frozen=True)
class Pooled(Prepare):
    """Gathers all clients' data in one client that spends what a cohort would (SEM's SingleSet).

    A federated round spends E epochs of cohort x n/K samples on average; the pooled client spends the same
    number of sample-steps, on samples drawn without replacement from all the data. Where the budget is a number
    of steps, it spends those of every client in a cohort.
    """

    name: ClassVar[str] = "pooled"
    paper: ClassVar[str] = "SEM, section IV (SingleSet)"
    discloses: ClassVar[tuple[str, ...]] = ("raw samples to the server",)

    def once(self, federation: Federation, cohort: int, seed: int) -> Federation:
        samples, asked = len(federation.indices), min(cohort, federation.clients)
        spent = max(1, round(int(federation.budget.sum()) * asked / federation.clients))
        return replace(
            federation,
            offsets=np.array([0, samples]),
            budget=np.array([spent]),
            weigh=np.array([samples]),
            pooled=np.array([asked]),
            names=None if federation.names is None else ("all clients",),
        )

"""Batch size and learning rate by how much data a client trains on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from unskew.core.roster import Roster
from unskew.core.slots import Local, Tune
from unskew.core.types import Cohort, PerClient
from unskew.errors import InputError


@dataclass(frozen=True)
class Dynamic(Tune):
    """Gives clients batches in proportion to their data, and rates that go with them (Seol & Kim, algorithm 3).

    b_k = floor(sum of s_k / beta), at least 1: every client takes about ``beta`` steps an epoch (a last, partial batch
    is one step more, where the run keeps it). eta_k = eta_max arctan(b_k).

    beta: steps an epoch; the paper has 3 in its case 1 and 25 in cases 2 to 4. eta_max: the largest learning rate.
    form: ``printed`` is the rule as printed, whose rate tends to pi/2 eta_max and so passes the bound that the text
    promises from b = 2 on; ``bounded`` multiplies by 2/pi and stays below eta_max.

    What a client trains on is what selection gave it (``kld``), else all it holds. The run's own batch size and
    learning rate are not used; its decay is.
    """

    name: ClassVar[str] = "dynamic"
    paper: ClassVar[str] = "Seol & Kim, Sensors 2023, algorithm 3"

    beta: int = 25
    eta_max: float = 0.1
    form: Literal["printed", "bounded"] = "printed"

    def __post_init__(self) -> None:
        if self.beta < 1:
            raise InputError(f"beta of dynamic must be at least 1 step an epoch, not {self.beta}")
        if not 0 < self.eta_max < float("inf"):
            raise InputError(f"eta_max of dynamic must be above 0, not {self.eta_max}")

    def settings(self, t: int, cohort: Cohort, roster: Roster, local: Local) -> PerClient:
        amounts = roster.drawn(cohort.clients, cohort.settings.per_class)
        batch = np.maximum(1, amounts // self.beta)
        bound = 2 / np.pi if self.form == "bounded" else 1.0
        return replace(cohort.settings, batch=batch, lr=bound * self.eta_max * np.arctan(batch))

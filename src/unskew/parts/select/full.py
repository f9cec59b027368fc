"""Everybody, every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.core.roster import Roster
from unskew.core.slots import Select
from unskew.core.types import Cohort, Ids, Memory


@dataclass(frozen=True)
class Full(Select):
    """Takes every client every round, whatever the cohort (the thesis's setup, table 4.2)."""

    name: ClassVar[str] = "full"
    paper: ClassVar[str] = "thesis, section 4.4"

    def select(
        self, count: int, exclude: Ids, roster: Roster, memory: Memory, rng: np.random.Generator
    ) -> tuple[Cohort, Memory]:
        return Cohort(np.delete(np.arange(roster.clients), exclude)), memory

    def foresee(self, count: int, roster: Roster, rng: np.random.Generator) -> Ids:
        return np.arange(roster.clients)

    def largest_cohort(self, count: int, clients: int) -> int:
        return clients

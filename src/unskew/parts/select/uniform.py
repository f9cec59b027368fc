"""Clients drawn at random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.core.roster import Roster
from unskew.core.slots import Select
from unskew.core.types import Cohort, Ids, Memory


@dataclass(frozen=True)
class Uniform(Select):
    """Draws the cohort uniformly without replacement (McMahan et al., AISTATS 2017, algorithm 1)."""

    name: ClassVar[str] = "uniform"
    paper: ClassVar[str] = "McMahan et al., AISTATS 2017"

    def select(
        self, count: int, exclude: Ids, roster: Roster, memory: Memory, rng: np.random.Generator
    ) -> tuple[Cohort, Memory]:
        taken = np.unique(exclude)
        # the d-th client that is not taken, without ever listing all clients
        return Cohort(_skipping(_drawn(count, roster.clients - len(taken), rng), taken)), memory

    def foresee(self, count: int, roster: Roster, rng: np.random.Generator) -> Ids:
        return _drawn(count, roster.clients, rng)  # right unless somebody is late or still out


def _drawn(count: int, free: int, rng: np.random.Generator) -> Ids:
    return rng.choice(free, size=min(count, free), replace=False).astype(np.int64)


def _skipping(drawn: Ids, taken: Ids) -> Ids:
    """Map 0, 1, 2, ... to the numbers that are not in the sorted ``taken``."""
    return drawn + np.searchsorted(taken - np.arange(len(taken)), drawn, side="right")

"""Down, train, up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.core.slots import Play, Schedule
from unskew.core.types import Leg, Memory, Tree


@dataclass(frozen=True)
class Plain(Schedule):
    """Every selected client trains the global model and sends it back (McMahan et al., algorithm 1)."""

    name: ClassVar[str] = "plain"
    paper: ClassVar[str] = "McMahan et al., AISTATS 2017"

    @property
    def last_round_differs(self) -> bool:
        return False

    def round(self, play: Play, params: Tree, memory: Memory) -> tuple[Tree, Memory]:
        cohort = play.select()
        update = play.train(Leg(cohort.clients, params, settings=cohort.settings, summable=True))
        return play.combine(params, update), memory

"""How does a model travel through clients in a round?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.core.roster import Roster
from unskew.core.slots.part import Part
from unskew.core.types import Cohort, Ids, Leg, Memory, Tree, Update


@dataclass(frozen=True)
class Schedule(Part):
    """Decides how models travel. The expensive verbs come in as functions, so any base method fits."""

    slot: ClassVar[str] = "schedule"
    exchanges: ClassVar[bool] = True
    """Whether models reach the server; if not, clients keep theirs, and each is judged."""

    @property
    def last_round_differs(self) -> bool:
        """Whether a run's last round is played unlike the others (``play.last``).

        A run that is made longer afterwards then plays that round again. One that never looks may say False.
        """
        return True

    def round(self, play: Play, params: Tree, memory: Memory) -> tuple[Tree, Memory]:
        """The next global model, and what the schedule remembers (models in flight, for instance)."""
        raise TypeError(f"{self.name} does not say how models travel: define round()")


@dataclass
class Play:
    """What a schedule is handed each round."""

    t: int
    last: bool  # whether this is the run's last round
    cohort: int  # how many clients the run asks for in a round
    roster: Roster  # who there is, and what the server knows of them
    select: Callable[..., Cohort]  # select(count=None, exclude=()) -> Cohort
    train: Callable[[Leg], Update]
    combine: Callable[[Tree, Update], Tree]  # the aggregation rule
    rng: np.random.Generator
    note: Callable[..., None]  # note(key=value): into this round's log line
    told: Callable[[str, Ids, int], None]  # what, who, numbers each: beside models, and counted in bytes
    landed: float = 0.0  # samples behind the uploads that ``combine`` took: late ones count when they come

"""Who takes part this round?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.core.roster import Roster
from unskew.core.slots.part import Part
from unskew.core.types import Cohort, Ids, Memory


@dataclass(frozen=True)
class Select(Part):
    """Decides who takes part."""

    slot: ClassVar[str] = "select"

    def select(
        self, count: int, exclude: Ids, roster: Roster, memory: Memory, rng: np.random.Generator
    ) -> tuple[Cohort, Memory]:
        """At most ``count`` clients that are not in ``exclude``."""
        raise TypeError(f"{self.name} does not say whom it selects: define select()")

    # --- what can be known before a round; rarely needed, and never a number

    def foresee(self, count: int, roster: Roster, rng: np.random.Generator) -> Ids | None:
        """Whom ``select`` will most likely take in a round that has not begun; None where nobody can know.

        ``rng`` is the round's own. An engine prepares for these clients, and a wrong guess costs it only time.
        """
        return None

    def largest_cohort(self, count: int, clients: int) -> int:
        """How many of so many clients ``select`` takes at most where ``count`` are wanted."""
        return min(count, clients)

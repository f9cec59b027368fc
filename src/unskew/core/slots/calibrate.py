"""What is done to a copy of the model before it is judged?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.roster import Roster
from unskew.core.slots.part import Part
from unskew.core.types import Tree

if TYPE_CHECKING:
    from unskew.core.net import Net
    from unskew.core.questions import Questions


@dataclass(frozen=True)
class Calibrate(Part):
    """Changes a copy of the model before it is judged."""

    slot: ClassVar[str] = "calibrate"

    def due(self, last: bool) -> bool:
        """Whether it works at this evaluation: only at the run's last, unless it says otherwise."""
        return last

    def calibrate(self, params: Tree, net: Net, roster: Roster, query: Questions, t: int, seed: int) -> Tree:
        """The changed copy; ``query`` is answered under ``params``, which ``t`` rounds have made."""
        return params

"""How far does the server step along the change?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.core.slots.part import Part
from unskew.core.types import Memory, Tree


@dataclass(frozen=True)
class Advance(Part):
    """Decides how far the server steps. What it remembers before round 0 is ``init_server``.

    The change is that of trained parameters alone, as ``aggregate`` and the objectives made it; batch-norm statistics
    are measured, not trained, and are taken as they are. A round in which nobody's upload lands takes no step.
    """

    slot: ClassVar[str] = "advance"

    def step(self, params: Tree, change: Tree, memory: Memory) -> tuple[Tree, Memory]:
        """The next parameters, and what the server remembers. ``change`` is in float64, on the device of ``params``."""
        raise TypeError(f"{self.name} does not say how far the server steps: define step()")

"""With which local settings?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.core.roster import Roster
from unskew.core.slots.part import Part
from unskew.core.types import Cohort, PerClient


@dataclass(frozen=True)
class Local:
    """How a client trains, the same for all unless a Tune part says otherwise."""

    epochs: float | None = 1.0  # passes over the client's data a round; fractions allowed
    steps: int | None = None  # or a number of steps; exactly one of the two is set
    batch: int = 32
    lr: float = 0.01
    optimizer: str = "sgd"
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip: float | None = None  # largest norm of a step's whole gradient
    last: str = "keep"  # the last, partial batch: keep | drop | wrap


@dataclass(frozen=True)
class Tune(Part):
    """Sets local settings client by client; later parts see and may overrule what earlier ones set."""

    slot: ClassVar[str] = "tune"

    def settings(self, t: int, cohort: Cohort, roster: Roster, local: Local) -> PerClient:
        """The settings of the cohort, a row for each client."""
        return cohort.settings

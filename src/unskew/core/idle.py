"""Legs without a step: models that travel to a client and leave it as they came.

A visit of one batch cannot be divided: where a schedule hands a model on after half of it, one of the two clients
takes the only step. It is counted where legs are played, so for any schedule, and said once in a run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew.core.budget import nearest

if TYPE_CHECKING:
    from unskew.core.slots import Local
    from unskew.core.types import Leg, Update


@dataclass
class Idle:
    """The legs of one round, and those in which a client that holds samples took no step."""

    legs: int = 0
    without: int = 0
    share: float = 1.0  # the smallest share of a visit that such a leg had
    samples: int = 0  # of the smallest client that took none

    def count(self, leg: Leg, update: Update) -> None:
        """These clients have answered."""
        drawn = update.drawn.numpy()
        before = 0 if leg.carry is None else leg.carry.steps[update.rows].numpy()
        still = (update.steps.numpy() - before == 0) & (drawn > 0)
        self.legs += len(update)
        if still.any():
            self.without += int(still.sum())
            self.share = min(self.share, leg.epochs)
            least = int(drawn[still].min())
            self.samples = min(self.samples or least, least)

    def line(self) -> dict[str, Any]:
        """For the round's line in the log, where there is something to say."""
        if not self.without:
            return {}
        return {
            "without_step": {
                "legs": self.without,
                "of": self.legs,
                "share": self.share,
                "samples": self.samples,
            }
        }


def warning(line: Mapping[str, Any], schedule: str, local: Local) -> str:
    """What a round's line says of legs without a step, and what to write instead; nothing where all had one."""
    found = line.get("without_step")
    if not found:
        return ""
    needed = math.ceil(1 / found["share"] - 1e-9)  # steps of a visit, so that every leg has one
    if local.steps is not None:
        instead = f"steps = {needed}"
    else:
        epochs, samples = local.epochs or 1.0, found["samples"]
        batches = math.ceil(samples / local.batch)
        instead = f"epochs = {math.ceil(needed / batches - 1e-9)}"
        smaller = math.ceil(samples / max(1, math.ceil((needed - 0.5) / epochs - 1e-9)))
        while smaller > 1 and nearest(epochs * math.ceil(samples / smaller)) < needed:
            smaller -= 1
        if nearest(epochs * math.ceil(samples / smaller)) >= needed:
            instead += f" or batch = {smaller}"
    return (
        f"{found['legs']} of {found['of']} legs of round {line['round']} had no step: {schedule} divides a visit, and "
        "these are too short for it, so that models travel to clients who do not train them; "
        f"write {instead}"
    )

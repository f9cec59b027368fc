"""How do updates become one change?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots.part import Part
from unskew.core.types import Memory, Tree, Update

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Aggregate(Part):
    """Decides how updates become one change of the model. Linear rules only give weights; others override merge."""

    slot: ClassVar[str] = "aggregate"
    weighs_examples_only: ClassVar[bool] = False
    """Whether ``weights`` looks at ``update.examples`` alone, up to a factor common to all rows. The weights are then
    known before clients train, and an engine may add models up as they come and keep none."""

    def weights(self, update: Update) -> Tensor:
        """One weight a row, float64; the change is the sum of weight x (params_i - base_i)."""
        raise TypeError(f"{self.name} does not say what updates weigh: define weights() or merge()")

    def statistics(self, update: Update) -> Tensor:
        """One weight a row for what is measured, not trained (batch norm's averages); they must sum to 1."""
        return self.weights(update)

    def merge(
        self, params: Tree, update: Update, memory: Memory, trainable: tuple[str, ...]
    ) -> tuple[Tree, Memory]:
        """The change, by the names of ``params`` and in float64, and what the server remembers of this rule.

        How far the server goes along it, ``advance`` says; ``params`` are only looked at.
        """
        measured = [k for k in params if k not in trainable]
        change = update.weighted_delta(self.weights(update), trainable)
        if measured:
            change |= update.weighted_delta(self.statistics(update), measured)
        return change, memory

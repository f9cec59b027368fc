"""What does a client minimise? All that the author of a loss has to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.core.slots.needs import Needs
from unskew.core.slots.part import Part
from unskew.core.slots.step import Batch, Out, Step
from unskew.core.types import Memory, Tree

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass(frozen=True)
class Objective(Part):
    """Changes what a client minimises. Every method here is optional; most parts define ``penalty`` alone.

    ``inputs``, ``logits`` and ``correct`` chain in the order written; class weights multiply, penalties add; at most
    one part of a method may replace ``forward``. A part that also remembers something at clients, or exchanges
    anything with the server, derives from ``Exchange`` instead, which is an ``Objective`` with more verbs.
    """

    slot: ClassVar[str] = "objective"
    needs: ClassVar[Needs] = Needs()

    # --- a step, in this order

    def inputs(self, batch: Batch, step: Step) -> Batch:
        """The batch to train on, where it is not the client's as it is."""
        return batch

    def forward(self, step: Step) -> Out | None:
        """Replace the forward pass; None leaves the plain one."""
        return None

    def logits(self, logits: Tensor, step: Step) -> Tensor:
        """The logits that the loss is taken of."""
        return logits

    def class_weights(self, step: Step) -> Tensor | None:
        """[classes] what each class counts in the task's loss; factors of several parts multiply. None: the same."""
        return None

    def penalty(self, step: Step) -> Tensor | float:
        """What is added to the loss of a step."""
        return 0.0

    def correct(self, grads: Tree, step: Step) -> Tree:
        """The gradients that the optimiser steps along."""
        return grads

    # --- what a step may use

    def draw(self, rng: np.random.Generator, steps: int, batch: int) -> Mapping[str, np.ndarray[Any, Any]]:
        """Random numbers for every step of a visit, with a leading axis of ``steps``: ``step.draws``."""
        return {}

    def extra(self, net: Net, shape: tuple[int, ...], seed: int) -> Tree:
        """Once, before round 0: initial weights of heads to train and average with the model.

        A step finds them in ``params``; their names start with the part's and a colon. ``shape`` is a sample's.
        """
        return {}

    # --- what other parts have to know of it; rarely needed

    @property
    def others_labels(self) -> bool:
        """Whether clients train on labels of others, so on classes that they may lack."""
        return False

    @property
    def own_labels_only(self) -> str:
        """What to write instead, where the loss cannot bear a class that the client lacks; else an empty text."""
        return ""

    def proximal_mu(self, shared: Tree, mine: Memory) -> float:
        """mu, where the penalty holds mu/2 ||w - anchor||^2: FedNova counts how much shorter it makes a visit."""
        return 0.0

    def budget_factor(self, t: int) -> float:
        """How many times the usual local epochs or steps a visit in round ``t`` takes."""
        return 1.0

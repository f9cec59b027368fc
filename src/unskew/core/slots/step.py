"""One step of one client: its batch, what the model said, and what a part may use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unskew.core.task import weighted_mean
from unskew.core.types import Memory, Tree

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass
class Batch:
    """One mini-batch of one client; ``weight`` is 0 on padding, and every statistic must honour it."""

    x: Tensor
    y: Tensor  # [B] whole numbers, or [B, classes] soft labels
    weight: Tensor  # [B]

    def mean(self, values: Tensor) -> Tensor:
        """The weighted mean of one value per sample."""
        return weighted_mean(values, self.weight)


@dataclass
class Out:
    """What the model said: logits, the target they are judged by, and features where a part asked for them.

    ``given`` is what entered the model ``since`` a layer, where that was not the batch at its beginning.
    """

    logits: Tensor
    target: Tensor
    features: Tensor | None = None
    given: Tensor | None = None
    since: str | None = None


@dataclass
class Step:
    """What an objective sees: one client, one batch. ``shared``, ``mine`` and ``draws`` are the part's own.

    A step may be captured once and replayed in later rounds, so it holds tensors only, and a function of tensors. What
    changes with the round comes in ``shared``, from ``hand_out(memory, t)``.
    """

    net: Net
    params: Tree  # trainable, being differentiated
    anchor: Tree  # what drift is measured against, statistics included; net.judge(step.anchor, x) asks it
    batch: Batch
    census: Tensor  # [classes] the client's label counts
    out: Out | None = None
    shared: Tree = field(default_factory=dict)  # from the server
    mine: Memory = field(default_factory=dict)  # the client's own memory
    draws: Tree = field(default_factory=dict)  # randomness, drawn before the step
    # logits and targets to the task's loss as parts have it, where there are others to ask
    judged: Callable[[Tensor, Tensor], Tensor] | None = None

    def task_loss(self, logits: Tensor, target: Tensor) -> Tensor:
        """The task's loss on this batch, with logits and class weights as the method's parts have them."""
        if self.judged is None:
            return self.net.task.loss(logits, target, self.batch.weight)
        return self.judged(logits, target)

    def features(self) -> Tensor:
        """The batch's penultimate features, one flat row per sample; passed anew where ``forward`` left them out."""
        found = None if self.out is None else self.out.features
        if found is None:
            found = self.net.without_statistics().features(self.params, self.batch.x)
        return found.flatten(1)

    def teacher(self) -> Tensor:
        """The global model's logits for what the local model was given."""
        if self.out is None or self.out.given is None:
            return self.net.judge(self.anchor, self.batch.x)
        return self.net.judge(self.anchor, self.out.given.detach(), since=self.out.since)

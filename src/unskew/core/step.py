"""One step of local training, written once: for one client, stacked over many, captured or recorded.

``loss`` is the heart: what one client minimises in one step, a pure function of tensors. ``LocalStep`` is the whole
step around it. Engines differ in how they call it (one client after the other, many as rows of one, a graph that is
replayed), not in what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unskew.core.net import Net
from unskew.core.optimisers import clip, optimizer
from unskew.core.over_clients import over_clients
from unskew.core.slots import Batch, Local, Objective, Out, Step
from unskew.core.types import Memory, Tree
from unskew.models.kernels.books import add_losses


@dataclass(frozen=True)
class LocalTraining:
    """What all clients of a run have in common."""

    net: Net
    objectives: tuple[Objective, ...]
    local: Local
    seed: int
    channels_last: bool = False  # the layout in which a CPU convolves fastest; same numbers up to rounding

    def changes(self, hooks: Collection[str]) -> bool:
        """Whether a part has something to do in any of these."""
        return any(
            getattr(type(part), hook) is not getattr(Objective, hook)
            for part in self.objectives
            for hook in hooks
        )

    @property
    def shows_steps(self) -> bool:
        """Whether parts are shown steps: what the samples are, and what the model says of them."""
        return self.changes((*IN_THE_LOSS, "correct"))


IN_THE_LOSS = ("inputs", "forward", "logits", "class_weights", "penalty")
"""What parts may do to the loss of a step."""


class StepInputs(NamedTuple):
    """What one step of one client depends on, beside its weights. Only tensors, because steps are stacked and
    captured."""

    buffers: Tree  # batch norm's statistics, which the step moves in place
    x: Tensor
    y: Tensor
    weight: Tensor  # of each sample, 0 on padding
    anchor: Tree
    census: Tensor
    shared: Mapping[str, Tree]
    mine: Mapping[str, Memory]
    draws: Mapping[str, Tree]
    seed: Tensor | None = None  # of dropout masks

    def bound(self, net: Net, padded: bool) -> Net:
        """The net for this step; batch norm weighs samples where some are padding."""
        return net.bound(self.buffers, self.seed, self.weight if padded else None)

    def seen_by(self, part: Objective, net: Net, params: Tree, batch: Batch, out: Out | None = None) -> Step:
        """What a part is shown. Of what parts share, remember and draw, it is shown its own."""
        own = self.shared[part.name], self.mine[part.name], self.draws[part.name]
        return Step(net, params, self.anchor, batch, self.census, out, *own)


def loss(training: LocalTraining, params: Tree, inputs: StepInputs, padded: bool) -> Tensor:
    """Everything a client minimises, at ``params`` on one batch: a pure function but for the statistics."""
    net, parts = inputs.bound(training.net, padded), training.objectives
    batch = Batch(inputs.x, inputs.y, inputs.weight)
    for part in parts:
        batch = part.inputs(batch, inputs.seen_by(part, net, params, batch))
    replaced = (part.forward(inputs.seen_by(part, net, params, batch)) for part in parts)
    out = next((o for o in replaced if o is not None), None)
    if out is None and any(part.needs.features for part in parts):
        features = net.features(params, batch.x)
        out = Out(net.classify(params, features), batch.y, features)
    elif out is None:
        out = Out(net(params, batch.x), batch.y)
    total = task_loss(parts, net, params, inputs, batch, out, batch.weight)

    def judged(logits: Tensor, target: Tensor) -> Tensor:
        return task_loss(parts, net, params, inputs, batch, Out(logits, target), batch.weight)

    for part in parts:
        seen = inputs.seen_by(part, net, params, batch, out)
        seen.judged = judged
        total = total + part.penalty(seen)
    return total


def task_loss(
    parts: tuple[Objective, ...],
    net: Net,
    params: Tree,
    inputs: StepInputs,
    batch: Batch,
    out: Out,
    weight: Tensor | None = None,
) -> Tensor:
    """The task's own loss, with logits as parts change them and classes as they weigh them."""
    logits, weights = out.logits, None
    for part in parts:
        logits = part.logits(logits, inputs.seen_by(part, net, params, batch, out))
    for part in parts:  # what each class counts; None where no part says so
        found = part.class_weights(inputs.seen_by(part, net, params, batch, out))
        if found is not None:
            weights = found if weights is None else weights * found
    return net.task.loss(logits, out.target, weight, weights)


def correct(training: LocalTraining, grads: Tree, params: Tree, inputs: StepInputs, padded: bool) -> Tree:
    """The gradient as parts change it, in the order written, and clipped last."""
    net, batch = inputs.bound(training.net, padded), Batch(inputs.x, inputs.y, inputs.weight)
    for part in training.objectives:
        grads = part.correct(grads, inputs.seen_by(part, net, params, batch))
    return grads if training.local.clip is None else clip(grads, training.local.clip)


class LocalStep:
    """The step: loss, gradient, the gradient as parts correct and clip it, the optimiser's move.

    Where clients are stacked, ``alike`` names the inputs that are one for all of them. Clients do not touch each other,
    so the gradient of the sum of their losses holds each client's own gradient. So the loss is vmapped, and one
    ordinary backward pass serves all. ``around_backward`` is a context around that pass: an engine may compute
    something else beside it, and it must be there when the context is left.
    """

    def __init__(
        self,
        training: LocalTraining,
        alike: Collection[str] | None = None,
        compile: bool = False,
        around_backward: Callable[[], AbstractContextManager[None]] = nullcontext,
    ):
        self.rule, self.around_backward = optimizer(training.local), around_backward
        self._loss = {padded: _loss_of(training, padded) for padded in (False, True)}
        self._correct = {padded: _correction_of(training, padded) for padded in (False, True)}
        changed = [part for part in training.objectives if type(part).correct is not Objective.correct]
        self.corrects = bool(changed) or training.local.clip is not None
        if alike is not None:
            rows = tuple(name not in alike for name in StepInputs._fields)
            self._loss = {p: over_clients(f, (True, *rows)) for p, f in self._loss.items()}
            self._correct = {p: over_clients(f, (True, True, *rows)) for p, f in self._correct.items()}
        # of stacked clients whose layers are one kernel for all: the gradient of the sum of so many losses by each
        self._ones: dict[int, Tensor] | None = {} if training.net.rounded else None
        if compile:
            self._loss = {p: torch.compile(f, dynamic=False) for p, f in self._loss.items()}

    def gradients(self, params: Tree, inputs: StepInputs, padded: bool = False) -> tuple[Tree, Tensor]:
        """The gradient that moves the weights, and the loss; ``params`` require gradients."""
        value = self._loss[padded](params, *inputs)
        total, slopes = self._total(value)
        with self.around_backward():
            found = torch.autograd.grad(total, list(params.values()), slopes, allow_unused=True)
        pairs = zip(params.items(), found, strict=True)
        grads = {k: torch.zeros_like(p) if g is None else g for (k, p), g in pairs}
        with torch.no_grad():
            if self.corrects:
                grads = self._correct[padded](grads, params, *inputs)
            return grads, value.detach()

    def __call__(
        self,
        params: Tree,
        inputs: StepInputs,
        state: Memory,
        rate: float | Tensor,
        count: int | Tensor,
        losses: Tensor,
        padded: bool = False,
    ) -> Tree:
        """Move ``params``, which require gradients, and the optimiser's ``state`` in place; add to ``losses``; give the
        gradient.

        Where the rate of stacked clients is a tensor, some of them may have finished. A client whose whole batch is
        padding has: it only waits for others, and adds no loss. (A rate of 0 would not tell, since a decay may come to
        it.)
        """
        grads, value = self.gradients(params, inputs, padded)
        with torch.no_grad():
            self.rule.step(params, grads, state, rate, count)
            waits = isinstance(rate, Tensor) and value.dim()
            if waits and self._ones is not None:
                add_losses(losses, value, inputs.weight)
                return grads
            if waits:
                value = torch.where(inputs.weight[:, 0] > 0, value, 0)  # padding comes last
            losses += value
        return grads

    def _total(self, value: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the backward pass starts from, and with which slope. It is the sum of the clients' losses; with kernels
        for all clients the losses themselves, each with the slope 1, which saves the sum."""
        if not value.dim():
            return value, None
        if self._ones is None:
            return value.sum(), None
        if len(value) not in self._ones:  # by a trial before a capture, whose replays would make it anew
            self._ones[len(value)] = torch.ones_like(value)
        return value, self._ones[len(value)]


# Neither of these refers to a LocalStep: a circle would keep a block's memory until the next garbage collection.


def _loss_of(training: LocalTraining, padded: bool) -> Callable[..., Tensor]:
    """``loss`` over plain arguments, as ``vmap`` and ``torch.compile`` take them."""

    def one(params: Tree, *inputs: Any) -> Tensor:
        return loss(training, params, StepInputs(*inputs), padded)

    return one


def _correction_of(training: LocalTraining, padded: bool) -> Callable[..., Tree]:
    """``correct``, likewise."""

    def one(grads: Tree, params: Tree, *inputs: Any) -> Tree:
        return correct(training, grads, params, StepInputs(*inputs), padded)

    return one

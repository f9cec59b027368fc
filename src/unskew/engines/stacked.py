"""Many clients as one: the step of local training over stacked models, and what the clients bring back.

The arithmetic is that of ``unskew.core.step``; only the order of additions inside a kernel may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from unskew.core.client import ClientJob, ClientResult, Pool, make_result, mean_loss
from unskew.core.layout import fills_memory
from unskew.core.step import IN_THE_LOSS, LocalStep, LocalTraining, StepInputs
from unskew.core.types import Memory, Tree, map_tensors
from unskew.engines.client_stack import ClientStack, handed_rows, stack_clients
from unskew.models.kernels.beginning import Begun, PlannedSteps, PoolTensors, begin, knows
from unskew.models.kernels.beside import filters_beside
from unskew.models.kernels.rounding import RoundedCopies
from unskew.models.split import Stages


def _one_pass(training: LocalTraining) -> bool:
    """Whether the loss is one forward pass of a model made of torch's and our own layers, which uses each weight once;
    and whether no part adds to the loss."""
    model = training.net.training
    ours = all(
        type(layer).__module__.startswith(("torch.nn.", "unskew.models.")) for layer in model.modules()
    )
    once = isinstance(model, Stages) and ours and not training.net.tied
    return once and not training.changes(IN_THE_LOSS)


class Stepper:
    """One step of a block's first clients."""

    def __init__(self, training: LocalTraining, pool: Pool, block: ClientStack, compile: bool = False):
        self.training, self.pool, self.block = training, pool, block
        one_for_all = {"shared": True, "anchor": not block.own_anchor, "seed": block.seeds is None}
        alike = {name for name, one in one_for_all.items() if one}
        beside = filters_beside if training.net.rounded and _one_pass(training) else nullcontext
        self.local_step = LocalStep(training, alike, compile, beside)
        self.state = self.local_step.rule.init(block.params)
        self.copies = RoundedCopies()
        rates = {each.lr for each in block.client_jobs}
        self.rate = rates.pop() if len(rates) == 1 else None  # the one rate of all, where there is one
        planned = PlannedSteps(block.index, block.weight, block.rate, block.seeds)
        # layers that are one kernel for all clients take what one kernel for all begins with
        self.planned = planned if training.net.rounded and knows(_samples(pool), planned) else None

    def step(self, s: int | Tensor, clients: int, padded: bool, one_rate: bool = False) -> Tree:
        """Train the first ``clients`` on step ``s`` of the leg: a number, or a tensor [1] inside a graph. The gradient
        comes back.

        Inside a graph some clients may have finished. They have the rate 0; or, where all have ``one_rate`` (the first
        client's), they go on with padding.
        """
        block, begun = self.block, self._begun(s, clients)
        inputs = StepInputs(
            buffers=_first(block.buffers, clients),
            x=begun.x,
            y=begun.y,
            weight=begun.weight,
            anchor=_first(block.anchor, clients) if block.own_anchor else block.anchor,
            census=block.census[:clients],
            shared=block.shared,
            mine={part: _first(tree, clients) for part, tree in block.mine.items()},
            draws={
                part: {k: _now(v, s, clients) for k, v in tree.items()} for part, tree in block.draws.items()
            },
            seed=begun.seeds,
        )
        params = {k: v[:clients].detach().requires_grad_() for k, v in block.params.items()}
        state, losses = _first(self.state, clients), block.losses[:clients]
        with self.copies.standing_for(self._filters(params), block.params):
            if isinstance(s, Tensor):
                rates = begun.rate[0] if one_rate else begun.rate
                return self.local_step(params, inputs, state, rates, s.squeeze(0), losses, padded)
            rate = begun.rate if self.rate is None else self.rate
            grads = self.local_step(params, inputs, state, rate, s, losses, padded)
        if s == 0:
            self.lay_out_like(grads)
        return grads

    def _filters(self, params: Tree) -> Tree:
        """What kernels for all clients read in bf16: weights, with a row for each client."""
        net = self.training.net
        return {k: v for k, v in params.items() if net.half and k in net.rounded and v.dim() > 2}

    def _begun(self, s: int | Tensor, clients: int) -> Begun:
        """What step ``s`` begins with: what is planned for it, and the samples that this names."""
        block = self.block
        if self.planned is not None and isinstance(s, Tensor):
            shown = self.training.shows_steps  # to parts, which may do anything with samples
            kind = torch.bfloat16 if self.training.net.rounds_samples and not shown else torch.float32
            return begin(s, self.planned, _samples(self.pool), clients, kind, side_by_side=not shown)
        x, y = self.pool.take(_now(block.index, s, clients))
        weight, rate = (_now(v, s, clients) for v in (block.weight, block.rate))
        return Begun(x, y, weight, rate, None if block.seeds is None else _now(block.seeds, s, clients))

    def lay_out_like(self, grads: Tree) -> None:
        """Give models the memory layout in which their gradients come: adding across layouts is slow."""
        for name, grad in grads.items():
            for tree in (self.block.params, *self.state.values()):
                if name not in tree or tree[name].stride() == grad.stride():
                    continue
                old = tree[name]
                if old.shape[1:] == grad.shape[1:] and fills_memory(old.shape, grad.stride()):
                    fresh = torch.empty_strided(old.shape, grad.stride(), dtype=old.dtype, device=old.device)
                    tree[name] = fresh.copy_(old)


def _samples(pool: Pool) -> PoolTensors:
    return PoolTensors(pool.x, pool.y, pool.mean, pool.std)


def _now(value: Tensor, s: int | Tensor, clients: int) -> Tensor:
    """What a plan has for step ``s`` of the first clients."""
    here = value.index_select(0, s).squeeze(0) if isinstance(s, Tensor) else value[s]
    return here[:clients]


def train_stacked(
    training: LocalTraining,
    pool: Pool,
    client_jobs: Sequence[ClientJob],
    device: torch.device,
    play: Callable[[LocalTraining, Pool, ClientStack], None] | None = None,
) -> list[ClientResult]:
    """Train these clients together, step by step, those still active as a prefix."""
    if not client_jobs:
        return []
    block = stack_clients(training, client_jobs, pool.mean.dtype, device)
    if play is not None:
        play(training, pool, block)
        return unstack_results(training, pool, block).returns
    stepper = Stepper(training, pool, block)
    for s in range(block.steps):
        stepper.step(s, block.active[s], block.padded[s])
    return unstack_results(training, pool, block).returns


@dataclass
class StackedResults:
    """What clients bring back. Their models, and how far these went, are in the single answers and also here, as rows
    of one tree each."""

    returns: list[ClientResult]
    params: Tree
    moved: Tree

    @staticmethod
    def joined(blocks: Sequence[tuple[list[int], StackedResults]]) -> StackedResults:
        """Blocks as one, whose clients stand at these places of it."""
        if len(blocks) == 1:
            return blocks[0][1]
        order = np.argsort([place for places, _ in blocks for place in places])
        returns = [back for _, block in blocks for back in block.returns]
        at = torch.from_numpy(order).to(next(iter(blocks[0][1].params.values())).device)

        def whole(
            *parts: Tensor,
        ) -> Tensor:  # tensor by tensor: all models at once would be there a third time
            return torch.cat(parts).index_select(0, at)

        params, moved = (
            map_tensors(whole, *(getattr(block, name) for _, block in blocks)) for name in ("params", "moved")
        )
        return StackedResults([returns[i] for i in order], params, moved)


def unstack_results(training: LocalTraining, pool: Pool, block: ClientStack) -> StackedResults:
    """The block's clients, in the order they were asked for.

    Losses are read last: that waits for the GPU, which by then has everything else to do.
    """
    client_jobs = [block.client_jobs[at] for at in block.order]
    end = {k: v.index_select(0, block.at_order) for k, v in (block.params | block.buffers).items()}
    start = handed_rows([each.model for each in client_jobs], block.index.device)
    moved = {k: end[k] - start[k] for k in training.net.trainable}
    before = [each.before for each in client_jobs if each.before is not None]
    if before:
        gone = handed_rows(before, block.index.device)
        moved = {k: v + gone[k] for k, v in moved.items()}
    returns = [
        make_result(training, pool, *of_one)
        for of_one in zip(client_jobs, _unstacked(end), _unstacked(moved), strict=True)
    ]
    losses = block.losses.tolist()
    for at, each, back in zip(block.order, client_jobs, returns, strict=True):
        back.loss = mean_loss(each, losses[at])
    return StackedResults(returns, end, moved)


def _unstacked(tree: Tree) -> list[Tree]:
    """Every client's row."""
    apart = [v.unbind() for v in tree.values()]
    return [dict(zip(tree, values, strict=True)) for values in zip(*apart, strict=True)]


def _first(tree: Memory, clients: int) -> Memory:
    return map_tensors(lambda v: v[:clients], tree)

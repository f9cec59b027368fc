"""Many clients as one: the step of local training over stacked models.

A block of clients is sorted by number of steps, so that those still training are always a prefix. Short batches
are padded with weight 0, and a client that has finished inside a prefix gets the learning rate 0. The arithmetic
is that of ``unskew.core.step``; only the order of additions inside a kernel may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.client import (
    ClientJob,
    ClientResult,
    Handed,
    Pool,
    draw_numbers,
    make_result,
    mask_seeds,
    mean_loss,
)
from unskew.core.memory import flatten, nest
from unskew.core.step import IN_THE_LOSS, LocalStep, LocalTraining, StepInputs
from unskew.core.types import Memory, Tree, clone, expand, leaves, map_tensors
from unskew.models.kernels.beginning import Begun, Planned, Samples, begin, knows
from unskew.models.kernels.beside import filters_beside
from unskew.models.kernels.rounding import RoundedCopies
from unskew.models.split import Stages


@dataclass
class ClientStack:
    """Some clients' jobs as tensors, longest first; every step has an entry for every client."""

    client_jobs: list[ClientJob]  # longest first
    order: list[int]  # which of these stands at each place of the order asked for
    at_order: Tensor  # the same where the block lies, for looking it up would wait for a GPU at work
    index: Tensor  # [steps, clients, batch] places in the pool
    weight: Tensor  # [steps, clients, batch] 0 on padding
    rate: Tensor  # [steps, clients] 0 where the client has finished
    active: list[int]  # [steps] how many clients are still training
    padded: list[
        bool
    ]  # [steps] whether one of those has a short batch, or numbers drawn for fewer rows than others
    ragged: bool  # whether clients have numbers drawn for batches of different sizes, some of them padding
    seeds: Tensor | None  # [steps, clients] for dropout masks
    draws: dict[str, Tree]  # part -> [steps, clients, ...]
    params: Tree  # [clients, ...]
    buffers: Tree
    census: Tensor
    anchor: Tree
    own_anchor: bool  # whether ``anchor`` is stacked, too
    mine: dict[str, Memory]
    shared: Mapping[str, Tree]
    losses: Tensor = field(init=False)  # [clients] summed over steps

    def __post_init__(self) -> None:
        self.losses = torch.zeros(len(self.client_jobs), dtype=torch.float64, device=self.index.device)

    @property
    def steps(self) -> int:
        return len(self.active)


def split_into_blocks(
    training: LocalTraining, client_jobs: Sequence[ClientJob], dtype: torch.dtype, device: torch.device
) -> ClientStack:
    """Stack these jobs."""
    longest_first = sorted(range(len(client_jobs)), key=lambda i: -client_jobs[i].plan.steps)
    ordered = [client_jobs[i] for i in longest_first]
    order = np.argsort(longest_first).tolist()
    plans = [e.plan for e in ordered]
    clients, steps, batch = len(ordered), plans[0].steps, max(p.widest for p in plans)
    index = np.zeros((steps, clients, batch), np.int64)
    weight = np.zeros((steps, clients, batch), np.float32)
    rate = np.zeros((steps, clients), np.float64)
    counts = np.array([p.steps for p in plans])
    if counts.sum():
        lengths = np.concatenate([np.diff(p.cuts) for p in plans])  # of every step of every client
        steps_of = np.concatenate([np.arange(n) for n in counts])
        at = np.repeat(steps_of, lengths), np.repeat(np.repeat(np.arange(clients), counts), lengths)
        column = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        index[*at, column] = np.concatenate([e.held.numpy()[e.plan.order] for e in ordered])
        weight[*at, column] = 1
        rate[steps_of, np.repeat(np.arange(clients), counts)] = np.repeat([e.lr for e in ordered], counts)
    active = (counts[:, None] > np.arange(steps)).sum(0)
    draws, ragged = _drawn(training, ordered, steps, dtype, device)
    padded = ragged | (weight.sum((1, 2)) < active * batch)
    net = training.net

    def there(value: Any) -> Tensor:
        return torch.as_tensor(value).to(device)

    model = _rows([e.model for e in ordered], device, fresh=True)
    against = [e.against for e in ordered]
    own_anchor = any(h.row is not None or h.tree is not against[0].tree for h in against)
    mine = {o.name: _stacked([e.mine[o.name] for e in ordered], device) for o in training.objectives}
    seeds = None
    if net.draws_masks:
        drawn = np.zeros((steps, clients), np.int64)
        for i, e in enumerate(ordered):
            drawn[: e.plan.steps, i] = mask_seeds(training.seed, e).numpy()
        seeds = there(drawn)
    return ClientStack(
        client_jobs=ordered,
        order=order,
        at_order=there(order),
        index=there(index),
        weight=there(weight).to(dtype),
        rate=there(rate).to(dtype),
        active=active.tolist(),
        padded=padded.tolist(),
        ragged=ragged,
        seeds=seeds,
        draws=draws,
        params={k: model[k] for k in net.trainable},
        buffers={k: model[k] for k in net.buffers},
        census=there(torch.stack([e.census for e in ordered])),
        anchor=_rows(against, device, fresh=True)
        if own_anchor
        else {k: there(v) for k, v in against[0].own.items()},
        own_anchor=own_anchor,
        mine=mine,
        shared={part: {k: there(v) for k, v in tree.items()} for part, tree in ordered[0].shared.items()},
    )


def tensors(block: ClientStack) -> dict[str, Tensor]:
    """Every tensor of a block by name."""
    found = {"index": block.index, "weight": block.weight, "rate": block.rate, "census": block.census}
    if block.seeds is not None:
        found["seeds"] = block.seeds
    for kind in ("params", "buffers", "anchor"):
        found |= {f"{kind}/{k}": v for k, v in getattr(block, kind).items()}
    for kind in ("draws", "mine", "shared"):
        trees = getattr(block, kind).items()
        found |= {f"{kind}/{p}/{path}": v for p, tree in trees for path, v in flatten(tree).items()}
    return found


def with_tensors(block: ClientStack, found: Mapping[str, Tensor]) -> ClientStack:
    """The block over other tensors, named as by ``tensors``."""

    def under(kind: str) -> Tree:
        return {k.removeprefix(f"{kind}/"): v for k, v in found.items() if k.startswith(f"{kind}/")}

    def by_part(kind: str) -> dict[str, Memory]:
        return {part: nest(under(f"{kind}/{part}")) for part in getattr(block, kind)}

    plain = {k: found[k] for k in ("index", "weight", "rate", "census", "seeds") if k in found}
    trees = {k: under(k) for k in ("params", "buffers", "anchor")}
    return replace(block, **plain, **trees, **{k: by_part(k) for k in ("draws", "mine", "shared")})  # type: ignore[arg-type]


def _one_pass(training: LocalTraining) -> bool:
    """Whether the loss is one pass of a model of the library, which uses each weight once, and nothing else of it."""
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
        rates = {e.lr for e in block.client_jobs}
        self.rate = rates.pop() if len(rates) == 1 else None  # the one rate of all, where there is one
        planned = Planned(block.index, block.weight, block.rate, block.seeds)
        # layers that are one kernel for all clients take what one kernel for all begins with
        self.planned = planned if training.net.rounded and knows(_samples(pool), planned) else None

    def step(self, s: int | Tensor, clients: int, padded: bool, one_rate: bool = False) -> Tree:
        """Train the first ``clients`` on step ``s`` of the leg: a number, or a tensor [1] inside a graph.

        Inside a graph some may have finished: they have the rate 0 or, where the first client's is the ``one_rate`` of
        all, go on with padding. The gradient comes back.
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
                if old.shape[1:] == grad.shape[1:] and _has_place_for_all(old.shape, grad.stride()):
                    fresh = torch.empty_strided(old.shape, grad.stride(), dtype=old.dtype, device=old.device)
                    tree[name] = fresh.copy_(old)


def _samples(pool: Pool) -> Samples:
    return Samples(pool.x, pool.y, pool.mean, pool.std)


def _now(value: Tensor, s: int | Tensor, clients: int) -> Tensor:
    """What a plan has for step ``s`` of the first clients."""
    here = value.index_select(0, s).squeeze(0) if isinstance(s, Tensor) else value[s]
    return here[:clients]


def _has_place_for_all(shape: torch.Size, strides: Sequence[int]) -> bool:
    """Whether every number has a place of its own, without gaps: a sum's gradient is one number seen many times."""
    laid_out = torch.empty_strided(shape, strides, device="meta")
    return torch.empty_like(laid_out).stride() == laid_out.stride()  # torch keeps such a layout, and no other


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
    block = split_into_blocks(training, client_jobs, pool.mean.dtype, device)
    if play is not None:
        play(training, pool, block)
        return unstack_results(training, pool, block).returns
    stepper = Stepper(training, pool, block)
    for s in range(block.steps):
        stepper.step(s, block.active[s], block.padded[s])
    return unstack_results(training, pool, block).returns


@dataclass
class StackedResults:
    """What clients bring back; and as rows of one tree each, what stands in their answers, too: their models, and how
    far these went."""

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

    Losses come last: to read them is to wait for a GPU, which has got all else to do by then.
    """
    client_jobs = [block.client_jobs[at] for at in block.order]
    end = {k: v.index_select(0, block.at_order) for k, v in (block.params | block.buffers).items()}
    start = _rows([e.model for e in client_jobs], block.index.device)
    moved = {k: end[k] - start[k] for k in training.net.trainable}
    before = [e.before for e in client_jobs if e.before is not None]
    if before:
        gone = _rows(before, block.index.device)
        moved = {k: v + gone[k] for k, v in moved.items()}
    returns = [
        make_result(training, pool, *of_one)
        for of_one in zip(client_jobs, _unstacked(end), _unstacked(moved), strict=True)
    ]
    losses = block.losses.tolist()
    for at, e, back in zip(block.order, client_jobs, returns, strict=True):
        back.loss = mean_loss(e, losses[at])
    return StackedResults(returns, end, moved)


def _unstacked(tree: Tree) -> list[Tree]:
    """Every client's row."""
    apart = [v.unbind() for v in tree.values()]
    return [dict(zip(tree, values, strict=True)) for values in zip(*apart, strict=True)]


def _rows(handed: Sequence[Handed], device: torch.device, fresh: bool = False) -> Tree:
    """What clients were handed as rows of one tree; unless it is to be ``fresh``, that may be the memory it came in."""
    first = handed[0]
    if any(h.tree is not first.tree for h in handed):
        return {k: torch.stack([h.own[k].detach().to(device) for h in handed]) for k in first.tree}
    tree = {k: v.detach().to(device) for k, v in first.tree.items()}
    if first.row is None:
        shared = expand(tree, len(handed))
        return clone(shared) if fresh else shared
    at = [h.row for h in handed]
    if not fresh and at == list(range(len(next(iter(tree.values()))))):
        return tree
    index = torch.tensor(at).to(device)
    return {k: v.index_select(0, index) for k, v in tree.items()}


def _first(tree: Memory, clients: int) -> Memory:
    return map_tensors(lambda v: v[:clients], tree)


def _stacked(trees: Sequence[Memory], device: torch.device) -> Memory:
    """Trees as rows of one; a tree that all share is moved once. Always fresh memory."""
    if all(t is trees[0] for t in trees) or all(
        all(v is w for v, w in zip(leaves(t), leaves(trees[0]), strict=True)) for t in trees
    ):  # one model handed to all: expand() of a single row would alias it, so clone
        return map_tensors(lambda v: v.detach().to(device).expand(len(trees), *v.shape).clone(), trees[0])
    return map_tensors(lambda *values: torch.stack([v.detach().to(device) for v in values]), *trees)


def _drawn(
    training: LocalTraining,
    client_jobs: Sequence[ClientJob],
    steps: int,
    dtype: torch.dtype,
    device: torch.device,
) -> tuple[dict[str, Tree], bool]:
    """Every part's random numbers, padded to the longest client and the largest batch; and whether batches differ."""
    per_client = [draw_numbers(training, e, dtype) for e in client_jobs]
    found: dict[str, Tree] = {}
    ragged = False
    for part in training.objectives:
        found[part.name] = {}
        for name in per_client[0][part.name]:
            arrays = [d[part.name][name] for d in per_client]
            shape = [max(a.shape[axis] for a in arrays) for axis in range(1, arrays[0].dim())]
            held = torch.zeros(steps, len(arrays), *shape, dtype=arrays[0].dtype)
            for i, a in enumerate(arrays):
                inner = tuple(slice(n) for n in a.shape[1:])
                held[: len(a), i][(slice(None), *inner)] = a
            found[part.name][name] = held.to(device)
            ragged = ragged or any(a.shape[1:] != arrays[0].shape[1:] for a in arrays)
    return found, ragged

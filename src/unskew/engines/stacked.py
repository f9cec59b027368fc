"""Many clients as one: the client's loss vmapped over stacked models.

A block of clients is sorted by number of steps, so that those still training are always a prefix. Short batches
are padded with weight 0, and a client that has finished inside a prefix gets the learning rate 0. The arithmetic
is that of ``unskew.client``; only the order of additions inside a kernel may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import grad_and_value, vmap

from unskew.client import Errand, Pool, Return, Scene, Task, brought_back, corrected, drawn, loss, mask_seeds
from unskew.optim import optimizer
from unskew.parts import Batch
from unskew.types import Tree


@dataclass
class Block:
    """Some clients' errands as tensors, longest first; every step has an entry for every client."""

    errands: list[Errand]  # longest first
    places: list[int]  # where each stood in the order asked for
    index: Tensor  # [steps, clients, batch] places in the pool
    weight: Tensor  # [steps, clients, batch] 0 on padding
    rate: Tensor  # [steps, clients] 0 where the client has finished
    active: list[int]  # [steps] how many clients are still training
    padded: list[bool]  # [steps] whether one of those has a short batch
    seeds: Tensor | None  # [steps, clients] for dropout masks
    draws: dict[str, Tree]  # part -> [steps, clients, ...]
    params: Tree  # [clients, ...]
    buffers: Tree
    census: Tensor
    anchor: Tree
    own_anchor: bool  # whether ``anchor`` is stacked, too
    mine: dict[str, Tree]
    shared: Mapping[str, Tree]
    losses: Tensor = field(init=False)  # [clients] summed over steps

    def __post_init__(self) -> None:
        self.losses = torch.zeros(len(self.errands), dtype=torch.float64, device=self.index.device)

    @property
    def steps(self) -> int:
        return len(self.active)


def blocked(task: Task, errands: Sequence[Errand], dtype: torch.dtype, device: torch.device) -> Block:
    """Stack these errands."""
    places = sorted(range(len(errands)), key=lambda i: -errands[i].plan.steps)
    ordered = [errands[i] for i in places]
    plans = [e.plan for e in ordered]
    clients, steps, batch = len(ordered), plans[0].steps, max(p.widest for p in plans)
    index = np.zeros((steps, clients, batch), np.int64)
    weight = np.zeros((steps, clients, batch), np.float32)
    rate = np.zeros((steps, clients), np.float64)
    for i, (e, p) in enumerate(zip(ordered, plans, strict=True)):
        lengths = np.diff(p.cuts)
        step = np.repeat(np.arange(p.steps), lengths)
        column = np.arange(len(p.order)) - p.cuts[step]
        index[step, i, column] = e.held.numpy()[p.order]
        weight[step, i, column] = 1
        rate[: p.steps, i] = e.lr
    counts = np.array([p.steps for p in plans])
    active = [int((counts > s).sum()) for s in range(steps)]
    padded = [bool((weight[s, : active[s]] == 0).any()) for s in range(steps)]
    net = task.net

    def there(value: Any) -> Tensor:
        return torch.as_tensor(value).to(device)

    start, anchor = ([getattr(e, which) for e in ordered] for which in ("start", "anchor"))
    own_anchor = any(a is not anchor[0] for a in anchor)
    mine = {o.name: _stacked([e.mine[o.name] for e in ordered], device) for o in task.objectives}
    seeds = None
    if net.draws_masks:
        rows = np.zeros((steps, clients), np.int64)
        for i, e in enumerate(ordered):
            rows[: e.plan.steps, i] = mask_seeds(task.seed, e).numpy()
        seeds = there(rows)
    return Block(
        errands=ordered,
        places=places,
        index=there(index),
        weight=there(weight).to(dtype),
        rate=there(rate).to(dtype),
        active=active,
        padded=padded,
        seeds=seeds,
        draws=_drawn(task, ordered, steps, dtype, device),
        params=_stacked([{k: s[k] for k in net.trainable} for s in start], device),
        buffers=_stacked([{k: s[k] for k in net.buffers} for s in start], device),
        census=torch.stack([e.census for e in ordered]).to(device),
        anchor=_stacked(anchor, device, net.trainable)
        if own_anchor
        else {k: there(anchor[0][k]) for k in net.trainable},
        own_anchor=own_anchor,
        mine=mine,
        shared={part: {k: there(v) for k, v in tree.items()} for part, tree in ordered[0].shared.items()},
    )


class Stepper:
    """One optimiser step of a block's first clients."""

    def __init__(self, task: Task, pool: Pool, block: Block, compile: bool = False, half: bool = False):
        self.task = replace(task, net=task.net.halved()) if half else task
        self.pool, self.block = pool, block
        self.rule = optimizer(task.local)
        self.state = self.rule.init(block.params)
        anchored = 0 if block.own_anchor else None
        masked = 0 if block.seeds is not None else None
        axes = (0, 0, 0, 0, 0, anchored, 0, 0, 0, masked)
        self.gradients = {padded: vmap(self._one(padded), in_dims=axes) for padded in (False, True)}
        if compile:
            self.gradients = {p: torch.compile(g, dynamic=False) for p, g in self.gradients.items()}

    def step(self, s: int | Tensor, clients: int, padded: bool) -> None:
        """Train the first ``clients`` on step ``s`` of the leg: a number, or a tensor [1] inside a graph."""
        block = self.block

        def now(value: Tensor) -> Tensor:
            here = value.index_select(0, s).squeeze(0) if isinstance(s, Tensor) else value[s]
            return here[:clients]

        x, y = self.pool.take(now(block.index))
        draws = {part: {k: now(v) for k, v in tree.items()} for part, tree in block.draws.items()}
        params, state = _first(block.params, clients), _first(self.state, clients)
        rate = now(block.rate)
        grads, found = self.gradients[padded](
            params,
            _first(block.buffers, clients),
            x,
            y,
            now(block.weight),
            _first(block.anchor, clients) if block.own_anchor else block.anchor,
            block.census[:clients],
            {part: _first(tree, clients) for part, tree in block.mine.items()},
            draws,
            None if block.seeds is None else now(block.seeds),
        )
        with torch.no_grad():
            self.rule.step(params, grads, state, rate, s.squeeze(0) if isinstance(s, Tensor) else s)
            block.losses[:clients] += torch.where(rate > 0, found.detach(), 0)

    def _one(self, padded: bool) -> Callable[..., tuple[Tree, Tensor]]:
        """Gradient and value for one client, to be vmapped; statistics must be arguments to be updated."""
        task, shared = self.task, self.block.shared

        def one(
            params: Tree,
            buffers: Tree,
            x: Tensor,
            y: Tensor,
            weight: Tensor,
            anchor: Tree,
            census: Tensor,
            mine: dict[str, Tree],
            draws: dict[str, Tree],
            seed: Tensor | None,
        ) -> tuple[Tree, Tensor]:
            batch = Batch(x, y, weight)
            scene = Scene(anchor, census, shared, mine, draws)
            counted = weight if padded else None

            def value(params: Tree, buffers: Tree) -> Tensor:
                return loss(task, task.net.bound(buffers, seed, counted), params, batch, scene)

            grads, found = grad_and_value(value)(params, buffers)
            here = task.net.bound(buffers, seed, counted)
            return corrected(task, here, grads, params, batch, scene), found

        return one


def train_stacked(task: Task, pool: Pool, errands: Sequence[Errand], device: torch.device) -> list[Return]:
    """Train these clients together, step by step, those still active as a prefix."""
    if not errands:
        return []
    block = blocked(task, errands, pool.mean.dtype, device)
    stepper = Stepper(task, pool, block)
    for s in range(block.steps):
        stepper.step(s, block.active[s], block.padded[s])
    return returned(task, pool, block)


def returned(task: Task, pool: Pool, block: Block) -> list[Return]:
    """The block's clients, in the order they were asked for."""
    back: list[Return | None] = [None] * len(block.errands)
    losses = block.losses.tolist()
    for i, (place, errand) in enumerate(zip(block.places, block.errands, strict=True)):
        end = {k: v[i].clone() for k, v in (block.params | block.buffers).items()}
        back[place] = brought_back(task, pool, errand, end, losses[i])
    return [r for r in back if r is not None]


def _first(tree: Tree, clients: int) -> Tree:
    return {k: v[:clients] for k, v in tree.items()}


def _stacked(trees: Sequence[Tree], device: torch.device, names: Sequence[str] | None = None) -> Tree:
    """Trees as rows of one; a tree that all share is moved once. Always fresh memory."""
    if all(t is trees[0] for t in trees) or all(
        all(v is trees[0][k] for k, v in t.items()) for t in trees
    ):  # one model handed to all: expand() of a single row would alias it, so clone
        return {
            k: v.detach().to(device).expand(len(trees), *v.shape).clone()
            for k, v in trees[0].items()
            if names is None or k in names
        }
    return {k: torch.stack([t[k].detach().to(device) for t in trees]) for k in names or trees[0]}


def _drawn(
    task: Task, errands: Sequence[Errand], steps: int, dtype: torch.dtype, device: torch.device
) -> dict[str, Tree]:
    """Every part's random numbers, padded to the longest client and the largest batch."""
    per_client = [drawn(task, e, dtype) for e in errands]
    found: dict[str, Tree] = {}
    for part in task.objectives:
        found[part.name] = {}
        for name in per_client[0][part.name]:
            arrays = [d[part.name][name] for d in per_client]
            shape = [max(a.shape[axis] for a in arrays) for axis in range(1, arrays[0].dim())]
            held = torch.zeros(steps, len(arrays), *shape, dtype=arrays[0].dtype)
            for i, a in enumerate(arrays):
                inner = tuple(slice(n) for n in a.shape[1:])
                held[: len(a), i][(slice(None), *inner)] = a
            found[part.name][name] = held.to(device)
    return found

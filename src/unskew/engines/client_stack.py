"""Some clients' jobs as tensors, for one step of all of them.

Clients are sorted by number of steps, so that those still training are always a prefix. Short batches are padded with
weight 0, and a client that has finished inside a prefix gets the learning rate 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.arrays import Array
from unskew.core.client import ClientJob, Handed, draw_numbers, mask_seeds
from unskew.core.memory import flatten, nest
from unskew.core.step import LocalTraining
from unskew.core.types import Memory, Tree, clone, expand, leaves, map_tensors


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
    # [steps] whether one of those has a short batch, or numbers drawn for fewer rows than others
    padded: list[bool]
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


def stack_clients(
    training: LocalTraining, client_jobs: Sequence[ClientJob], dtype: torch.dtype, device: torch.device
) -> ClientStack:
    """These jobs as one stack, on a device."""
    longest_first = sorted(range(len(client_jobs)), key=lambda i: -client_jobs[i].plan.steps)
    ordered = [client_jobs[i] for i in longest_first]
    order = np.argsort(longest_first).tolist()
    index, weight, rate, active = _lay_out_plans(ordered)
    steps, clients, batch = index.shape
    draws, ragged = _drawn(training, ordered, steps, dtype, device)
    padded = ragged | (weight.sum((1, 2)) < active * batch)
    net = training.net

    def there(value: Any) -> Tensor:
        return torch.as_tensor(value).to(device)

    model = handed_rows([each.model for each in ordered], device, fresh=True)
    against = [each.against for each in ordered]
    own_anchor = any(h.row is not None or h.tree is not against[0].tree for h in against)
    mine = {o.name: _stacked([each.mine[o.name] for each in ordered], device) for o in training.objectives}
    seeds = None
    if net.draws_masks:
        drawn = np.zeros((steps, clients), np.int64)
        for i, each in enumerate(ordered):
            drawn[: each.plan.steps, i] = mask_seeds(training.seed, each).numpy()
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
        census=there(torch.stack([each.census for each in ordered])),
        anchor=handed_rows(against, device, fresh=True)
        if own_anchor
        else {k: there(v) for k, v in against[0].own.items()},
        own_anchor=own_anchor,
        mine=mine,
        shared={part: {k: there(v) for k, v in tree.items()} for part, tree in ordered[0].shared.items()},
    )


def _lay_out_plans(ordered: Sequence[ClientJob]) -> tuple[Array, Array, Array, Array]:
    """Of every step of every client: places in the pool and weights [steps, clients, batch], rates [steps, clients];
    and how many clients take part in each step."""
    plans = [each.plan for each in ordered]
    clients, steps, batch = len(ordered), plans[0].steps, max(p.widest for p in plans)
    index = np.zeros((steps, clients, batch), np.int64)
    weight = np.zeros((steps, clients, batch), np.float32)
    rate = np.zeros((steps, clients), np.float64)
    counts = np.array([p.steps for p in plans])
    if counts.sum():
        lengths = np.concatenate([np.diff(p.cuts) for p in plans])  # of every step of every client
        owner, steps_of = np.repeat(np.arange(clients), counts), np.concatenate([*map(np.arange, counts)])
        at = np.repeat(steps_of, lengths), np.repeat(owner, lengths)
        column = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        index[*at, column] = np.concatenate([each.held.numpy()[each.plan.order] for each in ordered])
        weight[*at, column] = 1
        rate[steps_of, owner] = np.repeat([each.lr for each in ordered], counts)
    return index, weight, rate, (counts[:, None] > np.arange(steps)).sum(0)


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


def handed_rows(handed: Sequence[Handed], device: torch.device, fresh: bool = False) -> Tree:
    """What clients were handed, as rows of one tree: if not ``fresh``, perhaps in the memory that it came in."""
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


def _stacked(trees: Sequence[Memory], device: torch.device) -> Memory:
    """Trees as rows of one, always in fresh memory. A tree that all share is moved once."""
    first = leaves(trees[0])
    if all(t is trees[0] or all(v is w for v, w in zip(leaves(t), first, strict=True)) for t in trees):
        # one model handed to all: expand() of a single row would alias it, so clone
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
    per_client = [draw_numbers(training, each, dtype) for each in client_jobs]
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

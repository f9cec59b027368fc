"""One client's visit: the steps of its plan (``unskew.core.step``), and what it brings back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from unskew.core.held import Made
from unskew.core.optimisers import sum_of_rates
from unskew.core.plan import Plan
from unskew.core.slots import Batch, Exchange, Objective, Out, Upload, Visit
from unskew.core.step import LocalStep, LocalTraining, StepInputs, task_loss
from unskew.core.types import Memory, Message, Tree
from unskew.core.upload import encode_change, message_bytes
from unskew.data.dataset import normalise
from unskew.seeds import borrow_generator, generator

AT_HAND = 64 << 20
"""Bytes that a client's samples may take to be kept, normalised, for a visit."""


@dataclass
class Pool:
    """The samples of a federation on one device; compact types are normalised on use."""

    x: Tensor
    y: Tensor
    mean: Tensor
    std: Tensor

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        index = index.to(self.x.device)  # who holds what is kept on the host
        x, y = _rows(self.x, index), _rows(self.y, index)
        return normalise(x.to(self.mean.dtype), self.mean, self.std), y


def _rows(values: Tensor, index: Tensor) -> Tensor:
    """``values[index]`` in the layout of ``values``, several times faster."""
    if values.is_contiguous():
        return values.index_select(0, index.flatten()).view(*index.shape, *values.shape[1:])
    if values.dim() == 4 and values.is_contiguous(memory_format=torch.channels_last):
        return _rows(values.permute(0, 2, 3, 1), index).movedim(-1, -3)
    return values[index]


@dataclass(frozen=True)
class Handed:
    """A tree that a client was handed: a whole tree, or one row of a stacked tree. The row is looked up only when
    somebody asks for it, because engines that stack clients take the tree as it is."""

    tree: Tree
    row: int | None = None

    @cached_property
    def own(self) -> Tree:
        return self.tree if self.row is None else {k: v[self.row] for k, v in self.tree.items()}


@dataclass
class ClientJob:
    """One client's share of a leg."""

    client: int
    t: int
    model: Handed  # the whole model to start from: parameters and statistics
    against: Handed  # the model that drift is measured against
    held: Tensor  # the client's places in the pool; places past the pool's end are samples that the client made itself
    plan: Plan
    lr: float
    census: Tensor
    shared: Mapping[str, Tree]
    mine: Mapping[str, Memory]
    before: Handed | None = None  # how far the model moved in legs before this one, in the same visit
    work: float = 0.0
    steps: int = 0
    closing: bool = True
    made: Made | None = None
    weight: float = 0.0  # of its update
    at_hand: int = 0  # samples, of which ``held`` may be some
    encoders: tuple[Upload, ...] = ()  # by which its update leaves, where it uploads

    @property
    def start(self) -> Tree:
        return self.model.own

    @property
    def anchor(self) -> Tree:
        return self.against.own


@dataclass
class ClientResult:
    """What one client brings back."""

    params: Tree
    moved: Tree
    work: float
    steps: int
    samples: int
    loss: float = 0.0
    lr: float = 0.0
    pull: float = 0.0  # of the objectives, to the anchor
    uploads: dict[str, Tree] = field(default_factory=dict)
    memory: dict[str, Tree] = field(default_factory=dict)
    weight: float = 0.0
    at_hand: int = 0  # samples
    drawn: int = 0  # of which it trained on
    message: Message | None = None  # in place of the trained parameters, where they are encoded
    sent: int = 0  # its bytes
    went: float | None = None  # how far this leg took the model, where it is measured beside training
    sound: bool = True  # all numbers are finite; judged where models are summed as they come


def train(
    training: LocalTraining, pool: Pool, client_job: ClientJob, step: LocalStep | None = None
) -> ClientResult:
    """One client's local training: the steps of its plan from the model it was handed."""
    step = step or LocalStep(training)
    net, seed = training.net, training.seed
    params = {k: _own(client_job.start[k], training.channels_last).requires_grad_() for k in net.trainable}
    buffers = {k: client_job.start[k].detach().clone() for k in net.buffers}
    state = step.rule.init({k: v.detach() for k, v in params.items()})
    like = next(iter(params.values()))
    draws = draw_numbers(training, client_job, like.dtype)
    masks = mask_seeds(seed, client_job) if net.draws_masks else None
    around = client_job.anchor, client_job.census, client_job.shared, client_job.mine
    losses = torch.zeros((), dtype=like.dtype, device=like.device)
    for s, (x, y) in enumerate(_batches(pool, client_job)):
        weight = torch.ones(len(y), dtype=x.dtype, device=x.device)
        drawn = {part: {k: v[s] for k, v in tree.items()} for part, tree in draws.items()}
        inputs = StepInputs(buffers, x, y, weight, *around, drawn, None if masks is None else masks[s])
        step(params, inputs, state, client_job.lr, s, losses)
    end = {k: v.detach() for k, v in params.items()} | buffers
    gone = {k: end[k] - client_job.start[k] for k in net.trainable}
    if client_job.before is not None:
        gone = {k: v + client_job.before.own[k] for k, v in gone.items()}
    back = make_result(training, pool, client_job, end, gone)
    return replace(back, loss=mean_loss(client_job, float(losses)))


def _batches(pool: Pool, client_job: ClientJob) -> Iterator[tuple[Tensor, Tensor]]:
    """The samples of each step; where they are few and come back, looked up and normalised once a visit."""
    plan, held = client_job.plan, client_job.held
    order = torch.from_numpy(plan.order)
    steps = [order[first:last] for first, last in pairwise(plan.cuts.tolist())]
    size = len(held) * pool.x[:1].numel() * pool.mean.element_size()
    if len(order) <= len(held) or size > AT_HAND:
        yield from (pool.take(held[step]) for step in steps)
        return
    x, y = pool.take(held)
    for step in steps:
        at = step.to(x.device)
        yield _rows(x, at), _rows(y, at)


def _own(value: Tensor, channels_last: bool) -> Tensor:
    """A copy to train, in the layout asked for."""
    layout = torch.channels_last if channels_last and value.dim() == 4 else torch.contiguous_format
    return value.detach().clone(memory_format=layout)


def mean_loss(client_job: ClientJob, losses: float) -> float:
    """The mean loss of a step, from the sum over all steps."""
    return losses / max(1, client_job.plan.steps)


def make_result(
    training: LocalTraining, pool: Pool, client_job: ClientJob, end: Tree, gone: Tree
) -> ClientResult:
    """A client's answer but for its loss: its model, how far it went, and what every objective reports and remembers.

    ``gone`` is summed over the legs of the visit.
    """
    back = ClientResult(
        params=end,
        moved=gone,
        work=client_job.work + sum_of_rates(training.local, client_job.lr, client_job.plan.steps),
        steps=client_job.steps + client_job.plan.steps,
        samples=client_job.plan.samples,
        lr=client_job.lr,
        pull=sum(
            o.proximal_mu(client_job.shared[o.name], client_job.mine[o.name]) for o in training.objectives
        ),
        weight=client_job.weight,
        at_hand=client_job.at_hand,
        drawn=len(client_job.held),
    )
    for part in (o for o in training.objectives if isinstance(o, Exchange) and client_job.closing):
        visit = Visit(
            net=training.net,
            start=client_job.start,
            end=back.params,
            anchor=client_job.anchor,
            moved=back.moved,
            steps=back.steps,
            work=back.work,
            census=client_job.census,
            t=client_job.t,
            shared=client_job.shared[part.name],
            mine=client_job.mine[part.name],
            gradient=lambda model: full_gradient(training, pool, client_job, model),
        )
        back.uploads[part.name], back.memory[part.name] = part.report(visit)
    return encode_result(training, client_job, back) if client_job.encoders else back


def encode_result(training: LocalTraining, client_job: ClientJob, back: ClientResult) -> ClientResult:
    """The answer as it leaves the client: a message in place of the trained parameters. Statistics stay as they are."""
    parts, net = client_job.encoders, training.net
    change = {k: back.params[k] - client_job.anchor[k] for k in net.trainable}
    who = training.seed, client_job.t, client_job.client
    message, remembered = encode_change(parts, change, client_job.mine, *who)
    return replace(
        back,
        params={k: back.params[k] for k in net.buffers},
        moved={},
        message=message,
        sent=message_bytes(parts, message),
        memory=back.memory | remembered,
    )


def full_gradient(training: LocalTraining, pool: Pool, client_job: ClientJob, model: Tree) -> Tree:
    """The gradient of the task's mean loss over all the samples a client holds, statistics untouched.

    It is the loss that the client trains on, with logits and class weights as parts change them (FedLC, Balanced).
    Parts that draw numbers or look at features are left out, because only a step has those. Batch norm normalises by
    the samples at hand, as in a step: by averages that it has kept, it would be the gradient of another function.
    """
    net, held = training.net, client_job.held
    if net.buffers:
        net = net.by_batch_statistics()
    parts = tuple(o for o in training.objectives if type(o).draw is Objective.draw and not o.needs.features)
    params = {k: model[k].detach().clone().requires_grad_() for k in net.trainable}
    total = {k: torch.zeros_like(v) for k, v in params.items()}
    undrawn: dict[str, Tree] = {o.name: {} for o in parts}
    known = client_job.anchor, client_job.census, client_job.shared, client_job.mine, undrawn
    for block in net.blocks(len(held)) if len(held) else ():  # of nothing it is 0
        x, y = pool.take(held[torch.from_numpy(block)])
        batch = Batch(x, y, torch.ones(len(y), dtype=x.dtype, device=x.device))
        inputs = StepInputs({}, x, y, batch.weight, *known)
        # a copy: where a client's samples overflow, what is not a number would get into the model's own
        statistics = {k: v.clone() for k, v in net.statistics(model).items()}
        out = Out(net.judge(params | statistics, x), y)
        loss = task_loss(parts, net, params, inputs, batch, out)
        found = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        for value, g in zip(total.values(), found, strict=True):
            if g is not None:
                value += g * (len(y) / len(held))
    return total


def draw_numbers(training: LocalTraining, client_job: ClientJob, dtype: torch.dtype) -> dict[str, Tree]:
    """Every part's random numbers for these steps: drawn for the whole visit, so a hand-over changes none."""
    here = slice(client_job.plan.first, client_job.plan.first + client_job.plan.steps)
    drawn: dict[str, Tree] = {}
    for part in training.objectives:
        rng = generator(training.seed, "draws", part.name, client_job.t, client_job.client)
        arrays = part.draw(rng, client_job.plan.whole, client_job.plan.batch)
        drawn[part.name] = {
            k: torch.from_numpy(np.ascontiguousarray(v[here])).to(
                dtype if v.dtype.kind == "f" else torch.int64
            )
            for k, v in arrays.items()
        }
    return drawn


def mask_seeds(seed: int, client_job: ClientJob) -> Tensor:
    """One seed a step for the masks of dropout layers: drawn for the whole visit, like all else."""
    drawn = borrow_generator(seed, "masks", client_job.t, client_job.client).integers(
        2**63, size=client_job.plan.whole
    )
    return torch.from_numpy(drawn[client_job.plan.first : client_job.plan.first + client_job.plan.steps])

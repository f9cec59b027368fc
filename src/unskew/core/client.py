"""The one client function: local training as every engine runs it.

``loss`` is the heart: what one client minimises in one step, a pure function of tensors, so that it can be
called for one client or stacked over many. ``train`` is the loop around it for one client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from unskew.core.held import Made
from unskew.core.net import Net
from unskew.core.optimisers import clip, optimizer, sum_of_rates
from unskew.core.plan import Plan
from unskew.core.slots import Batch, Exchange, Local, Objective, Out, Step, Visit
from unskew.core.types import Tree
from unskew.data.dataset import normalise
from unskew.seeds import borrow_generator, generator


@dataclass
class Pool:
    """The samples of a federation on one device; compact types are normalised on use."""

    x: Tensor
    y: Tensor
    mean: Tensor
    std: Tensor

    def take(self, index: Tensor) -> tuple[Tensor, Tensor]:
        index = index.to(self.x.device)  # who holds what is kept on the host
        if self.x.is_contiguous():  # several times faster than x[index], which keeps the layout of others
            x = self.x.index_select(0, index.flatten()).view(*index.shape, *self.x.shape[1:])
        else:
            x = self.x[index]
        y = self.y.index_select(0, index.flatten()).view(index.shape)
        return normalise(x.to(self.mean.dtype), self.mean, self.std), y


@dataclass(frozen=True)
class LocalTraining:
    """What all clients of a run have in common."""

    net: Net
    objectives: tuple[Objective, ...]
    local: Local
    seed: int
    classes: int
    channels_last: bool = False  # the layout in which a CPU convolves fastest; same numbers up to rounding


@dataclass
class ClientJob:
    """One client's share of a leg."""

    client: int
    t: int
    start: Tree  # the whole model: parameters and statistics
    anchor: Tree
    held: Tensor  # the client's places in the pool; from its length on, of what the client made itself
    plan: Plan
    lr: float
    census: Tensor
    shared: Mapping[str, Tree]
    mine: Mapping[str, Tree]
    moved: Tree | None = None  # of the legs before this one, in the same visit
    work: float = 0.0
    steps: int = 0
    closing: bool = True
    made: Made | None = None
    weight: float = 0.0  # of its update
    at_hand: int = 0  # samples, of which ``held`` may be some


@dataclass
class ClientResult:
    """What one client brings back."""

    params: Tree
    moved: Tree
    work: float
    steps: int
    samples: int
    loss: float
    lr: float = 0.0
    pull: float = 0.0  # of the objectives, to the anchor
    uploads: dict[str, Tree] = field(default_factory=dict)
    memory: dict[str, Tree] = field(default_factory=dict)
    weight: float = 0.0
    at_hand: int = 0  # samples
    drawn: int = 0  # of which it trained on
    sound: bool = True  # all numbers are finite; judged where models are summed as they come


@dataclass
class StepContext:
    """What surrounds one step of one client, beside its model and its batch."""

    anchor: Tree
    census: Tensor
    shared: Mapping[str, Tree]
    mine: Mapping[str, Tree]
    draws: Mapping[str, Tree]

    def seen_by(self, part: Objective, net: Net, params: Tree, batch: Batch, out: Out | None = None) -> Step:
        name = part.name
        own = self.shared[name], self.mine[name], self.draws[name]
        return Step(net, params, self.anchor, batch, self.census, out, *own)


def loss(task: LocalTraining, net: Net, params: Tree, batch: Batch, scene: StepContext) -> Tensor:
    """Everything a client minimises, at ``params`` on one batch: a pure function of tensors."""
    parts = task.objectives
    for part in parts:
        batch = part.inputs(batch, scene.seen_by(part, net, params, batch))
    replaced = (part.forward(scene.seen_by(part, net, params, batch)) for part in parts)
    out = next((o for o in replaced if o is not None), None)
    if out is None and any(part.needs.features for part in parts):
        features = net.features(params, batch.x)
        out = Out(net.classify(params, features), batch.y, features)
    elif out is None:
        out = Out(net(params, batch.x), batch.y)
    logits = out.logits
    for part in parts:
        logits = part.logits(logits, scene.seen_by(part, net, params, batch, out))
    weights = _class_weights(task, net, params, batch, scene, out)
    total = net.task.loss(logits, out.target, batch.weight, weights)
    for part in parts:
        total = total + part.penalty(scene.seen_by(part, net, params, batch, out))
    return total


def _class_weights(
    task: LocalTraining, net: Net, params: Tree, batch: Batch, scene: StepContext, out: Out
) -> Tensor | None:
    """What each class counts in the task's loss; None where no part says so."""
    weights = None
    for part in task.objectives:
        found = part.class_weights(scene.seen_by(part, net, params, batch, out))
        if found is not None:
            weights = found if weights is None else weights * found
    return weights


def correct_gradients(
    task: LocalTraining, net: Net, grads: Tree, params: Tree, batch: Batch, scene: StepContext
) -> Tree:
    """The gradient as parts change it, in the order written, and clipped last."""
    for part in task.objectives:
        grads = part.correct(grads, scene.seen_by(part, net, params, batch))
    return grads if task.local.clip is None else clip(grads, task.local.clip)


def gradients(
    task: LocalTraining, net: Net, params: Tree, batch: Batch, scene: StepContext
) -> tuple[Tree, Tensor]:
    """Gradient and value of ``loss`` for one client; ``params`` require gradients."""
    value = loss(task, net, params, batch, scene)
    found = torch.autograd.grad(value, list(params.values()), allow_unused=True)
    pairs = zip(params.items(), found, strict=True)
    grads = {k: torch.zeros_like(p) if g is None else g for (k, p), g in pairs}
    with torch.no_grad():
        return correct_gradients(task, net, grads, params, batch, scene), value.detach()


def train(task: LocalTraining, pool: Pool, client_job: ClientJob) -> ClientResult:
    """One client's local training: the steps of its plan from the model it was handed."""
    net, plan, seed = task.net, client_job.plan, task.seed
    params = {k: _own(client_job.start[k], task.channels_last).requires_grad_() for k in net.trainable}
    buffers = {k: client_job.start[k].detach().clone() for k in net.buffers}
    rule = optimizer(task.local)
    state = rule.init({k: v.detach() for k, v in params.items()})
    draws = draw_numbers(task, client_job, next(iter(params.values())).dtype)
    masks = mask_seeds(seed, client_job) if net.draws_masks else None
    scene = StepContext(client_job.anchor, client_job.census, client_job.shared, client_job.mine, {})
    losses = torch.zeros(())
    places = client_job.held[torch.from_numpy(plan.order)]
    for s in range(plan.steps):
        x, y = pool.take(places[plan.cuts[s] : plan.cuts[s + 1]])
        batch = Batch(x, y, torch.ones(len(y), dtype=x.dtype, device=x.device))
        here = net.bound(buffers, None if masks is None else masks[s])
        scene.draws = {part: {k: v[s] for k, v in tree.items()} for part, tree in draws.items()}
        grads, value = gradients(task, here, params, batch, scene)
        with torch.no_grad():
            rule.step(params, grads, state, client_job.lr, s)
            losses = losses + value
    end = {k: v.detach() for k, v in params.items()} | buffers
    gone = {k: end[k] - client_job.start[k] for k in task.net.trainable}
    return make_result(task, pool, client_job, end, gone, float(losses))


def _own(value: Tensor, channels_last: bool) -> Tensor:
    """A copy to train, in the layout asked for."""
    layout = torch.channels_last if channels_last and value.dim() == 4 else torch.contiguous_format
    return value.detach().clone(memory_format=layout)


def make_result(
    task: LocalTraining, pool: Pool, client_job: ClientJob, end: Tree, gone: Tree, losses: float
) -> ClientResult:
    """A client's answer: its model, how far it went, and what every objective reports and remembers."""
    if client_job.moved is not None:
        gone = {k: v + client_job.moved[k] for k, v in gone.items()}
    back = ClientResult(
        params=end,
        moved=gone,
        work=client_job.work + sum_of_rates(task.local, client_job.lr, client_job.plan.steps),
        steps=client_job.steps + client_job.plan.steps,
        samples=client_job.plan.samples,
        loss=losses / max(1, client_job.plan.steps),
        lr=client_job.lr,
        pull=sum(o.proximal_mu(client_job.shared[o.name], client_job.mine[o.name]) for o in task.objectives),
        weight=client_job.weight,
        at_hand=client_job.at_hand,
        drawn=len(client_job.held),
    )
    for part in (o for o in task.objectives if isinstance(o, Exchange) and client_job.closing):
        visit = Visit(
            net=task.net,
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
            gradient=lambda model: full_gradient(task, pool, client_job.held, model),
        )
        back.uploads[part.name], back.memory[part.name] = part.report(visit)
    return back


def full_gradient(task: LocalTraining, pool: Pool, held: Tensor, model: Tree, block: int = 512) -> Tree:
    """The gradient of the task's mean loss over all the samples a client holds, statistics untouched."""
    params = {k: model[k].detach().clone().requires_grad_() for k in task.net.trainable}
    total = {k: torch.zeros_like(v) for k, v in params.items()}
    for start in range(0, len(held), block):
        x, y = pool.take(held[start : start + block])
        loss = task.net.task.loss(task.net.judge(params | task.net.statistics(model), x), y)
        found = torch.autograd.grad(loss, list(params.values()), allow_unused=True)
        for value, g in zip(total.values(), found, strict=True):
            if g is not None:
                value += g * (len(y) / len(held))
    return total


def draw_numbers(task: LocalTraining, client_job: ClientJob, dtype: torch.dtype) -> dict[str, Tree]:
    """Every part's random numbers for these steps: drawn for the whole visit, so a hand-over changes none."""
    here = slice(client_job.plan.first, client_job.plan.first + client_job.plan.steps)
    drawn: dict[str, Tree] = {}
    for part in task.objectives:
        rng = generator(task.seed, "draws", part.name, client_job.t, client_job.client)
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

"""From a leg to one job per client and back: what every engine needs around the client function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from unskew.core.budget import nearest
from unskew.core.client import ClientJob, ClientResult, Handed
from unskew.core.engine import Job, RoundInputs
from unskew.core.faults import finite_rows
from unskew.core.holdings import Holdings
from unskew.core.memory_names import STATISTICS
from unskew.core.optimisers import sum_of_rates
from unskew.core.plan import Plan, plan, subset
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.types import Ids, Leg, Memory, Tree, Update, expand, map_tensors, no_rows, rows_at, stack
from unskew.core.upload import upload_bytes


class PlanInputs(NamedTuple):
    """All that a client's plan depends on."""

    local: Local
    seed: int
    t: int
    client: int
    held: int
    budget: int
    pooled: int
    done: float
    share: float
    batch: int | None = None

    def plan(self) -> Plan:
        local, seed, t, client, held, budget, pooled, done, share, batch = self
        return plan(
            held, budget, local,
            seed=seed, t=t, client=client, done=done, share=share, batch=batch, pooled=pooled,
        )  # fmt: skip


def make_client_job(
    job: Job,
    leg: Leg,
    row: int,
    round_inputs: RoundInputs,
    holdings: Holdings,
    made: Mapping[PlanInputs, Plan] | None = None,
) -> ClientJob:
    """One client's share of a leg: its data, its plan, its memory, and the model it was handed.

    ``made``: plans that were made in advance.
    """
    store, t = round_inputs.store, round_inputs.t
    client = int(leg.clients[row])
    model = Handed(leg.start, row if leg.stacked else None)
    against = model if leg.anchor is None else Handed(leg.anchor)
    if job.batch_norm != "average":
        fresh = job.net.statistics(job.net.initial)
        own = store.get(STATISTICS, client, fresh) if job.batch_norm == "local" else fresh
        model, against = Handed(model.own | own), Handed(against.own | own)
    held = holdings.held(client, round_inputs.moment, job.roster, job.method.prepare, job.seed)
    at_hand, settings = len(held), leg.settings
    if settings.per_class is not None:
        held = held.some(subset(held.labels, settings.per_class[row], seed=job.seed, t=t, client=client))
    batch = None if settings.batch is None else int(settings.batch[row])
    local, pooled = stretch_budget(job, t), int(job.roster.pooled[client])
    asked = PlanInputs(
        local, job.seed, t, client, len(held), held.budget, pooled, leg.done, leg.epochs, batch
    )
    work = (made or {}).get(asked) or asked.plan()
    rate = job.local.lr if settings.lr is None else float(settings.lr[row])
    rate *= round_inputs.decay
    device = next(iter(leg.start.values())).device

    def there(memory: Memory) -> Memory:
        """A client's memory where it trains; it is kept on the host."""
        return map_tensors(lambda v: v.to(device), memory)

    remembered = job.method.init_client(job.net, job.roster.relative(client))
    before = leg.carry
    return ClientJob(
        client=client,
        t=t,
        model=model,
        against=against,
        held=torch.from_numpy(held.places),
        made=held.made,
        plan=work,
        lr=rate,
        census=torch.from_numpy(held.counts).to(device),
        shared=round_inputs.shared,
        mine={part: there(store.get(part, client, first)) for part, first in remembered.items()},
        weight=held.weigh,
        at_hand=at_hand,
        before=None if before is None else Handed(before.moved, row),
        work=0.0 if before is None else float(before.work[row]),
        steps=0 if before is None else int(before.steps[row]),
        closing=leg.closing,
        encoders=job.method.encoders if leg.upload else (),
    )


def stretch_budget(job: Job, t: int) -> Local:
    """The local budget of a round, where a part makes some rounds longer than others."""
    times = math.prod(o.budget_factor(t) for o in job.method.objective)
    if times == 1:
        return job.local
    epochs, steps = job.local.epochs, job.local.steps
    return replace(
        job.local,
        epochs=None if epochs is None else epochs * times,
        steps=None if steps is None else max(1, nearest(steps * times)),
    )


def gather_results(
    job: Job,
    leg: Leg,
    rows: Ids,
    returns: list[ClientResult],
    params: Tree | None = None,
    moved: Tree | None = None,
) -> Update:
    """The clients' answers as one update; ``params`` and ``moved`` where they are stacked already."""
    clients = leg.clients[rows]
    template = {k: v[0] for k, v in leg.start.items()} if leg.stacked else leg.start
    messages = [r.message for r in returns if r.message is not None]
    if messages:
        params, moved = stack([r.params for r in returns]), {}
    if params is None or moved is None:
        params = stack([r.params for r in returns]) or {k: v[None][:0] for k, v in template.items()}
        moved = stack([r.moved for r in returns]) or {k: template[k][None][:0] for k in job.net.trainable}
    base = rows_at(leg.start, rows, of=len(leg.clients)) if leg.stacked else expand(leg.start, len(rows))
    memory = {
        part.name: stack([r.memory[part.name] for r in returns if part.name in r.memory])
        for part in (*job.method.exchange, *job.method.encoders)
    }
    if job.batch_norm == "local":
        memory[STATISTICS] = _own_statistics(job, params, len(rows))
    if job.batch_norm != "average":  # statistics stay at home: the update says that they did not move
        params = params | {k: base[k] for k in job.net.buffers}
    reach, pulled = _reached(job, leg, rows, returns)
    return Update(
        rows=np.asarray(rows, np.int64),
        clients=clients,
        base=base,
        params=params,
        moved=moved,
        work=torch.tensor([r.work for r in returns], dtype=torch.float64),
        reach=reach,
        pulled=pulled,
        lr=torch.tensor([r.lr for r in returns], dtype=torch.float64),
        examples=torch.tensor([r.weight for r in returns], dtype=torch.float64),
        steps=torch.tensor([r.steps for r in returns], dtype=torch.int64),
        samples=torch.tensor([r.samples for r in returns], dtype=torch.int64),
        loss=torch.tensor([r.loss for r in returns], dtype=torch.float64),
        uploads={
            o.name: stack([r.uploads[o.name] for r in returns if r.uploads]) for o in job.method.exchange
        },
        memory=memory,
        held=torch.tensor([r.at_hand for r in returns], dtype=torch.int64),
        drawn=torch.tensor([r.drawn for r in returns], dtype=torch.int64),
        went=_told([r.went for r in returns]),
        messages=messages,
        sent=upload_bytes(job, [r.sent for r in returns], template)
        if leg.upload and job.method.encoders
        else no_rows(),
    )


def _told(values: list[float | None]) -> Tensor:
    """A number for each row, or none at all where not every row has one."""
    found = [value for value in values if value is not None]
    return torch.tensor(found, dtype=torch.float64) if len(found) == len(values) else no_rows()


def _own_statistics(job: Job, params: Tree, clients: int) -> Tree:
    """The batch statistics that clients keep. A client whose averages are not finite gets those of the first model:
    they would otherwise stay not finite in all its later visits."""
    own = job.net.statistics(params)
    sound = finite_rows([own], clients)
    if sound.all():
        return own

    def mended(value: Tensor, first: Tensor) -> Tensor:
        rows = sound.to(value.device).view(-1, *[1] * (value.dim() - 1))
        return torch.where(rows, value, first.to(value.device))

    return {k: mended(v, job.net.initial[k]) for k, v in own.items()}


def weigh_results(leg: Leg, rows: Ids, roster: Roster) -> Tensor:
    """What each client's update will weigh: the samples it was told to train on, or its whole data."""
    clients, told = leg.clients[rows], leg.settings.per_class
    weight = roster.weigh[clients] if told is None else roster.drawn(clients, told[rows])
    return torch.as_tensor(weight, dtype=torch.float64)


def _reached(job: Job, leg: Leg, rows: Ids, returns: list[ClientResult]) -> tuple[Tensor, Tensor]:
    """How far a constant gradient of 1 would have taken each model, without and with the objectives' pull."""
    before = [torch.zeros(len(rows), dtype=torch.float64)] * 3
    if leg.carry is not None:
        at = torch.from_numpy(np.asarray(rows, np.int64))
        before = [leg.carry.reach[at], leg.carry.pulled[at], leg.carry.steps[at]]
    reach, pulled = [], []
    for r, free, held, steps in zip(returns, *(b.tolist() for b in before), strict=True):
        here = r.steps - int(steps)
        reach.append(sum_of_rates(job.local, r.lr, here, 0.0, free))
        pulled.append(sum_of_rates(job.local, r.lr, here, r.pull, held))
    return torch.tensor(reach, dtype=torch.float64), torch.tensor(pulled, dtype=torch.float64)

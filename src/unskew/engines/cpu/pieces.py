"""Pieces of work and how one is answered: the same wherever they are carried out, here, in a worker or in an actor."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from unskew.arrays import Array
from unskew.core.client import ClientJob, ClientResult, Handed
from unskew.core.dispatch import make_client_job
from unskew.core.engine import Job, RoundInputs
from unskew.core.exchanged_rows import pad_varying
from unskew.core.held import Moment
from unskew.core.holdings import Holdings
from unskew.core.step import LocalTraining
from unskew.core.store import ClientStore
from unskew.core.types import Ids, Leg, map_tensors
from unskew.core.upload import decode_model
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.data.mapped import Mapped
from unskew.engines.cpu.workers import Board, as_arrays, as_tensors
from unskew.engines.device_data import DeviceData, tensor_of
from unskew.engines.recorded_alone import common_sizes

Train = Callable[[list[ClientJob]], list[ClientResult]]
Made = TypeVar("Made")


@dataclass
class SharedPool:
    """A data set's arrays in shared memory, or where they lie on disk."""

    tensors: dict[str, Tensor | Mapped]
    rest: dict[str, Any]
    channels_last: bool
    stacked: bool
    record: bool

    def dataset(self) -> Dataset:
        arrays: dict[str, Any] = {
            k: v.open() if isinstance(v, Mapped) else v.numpy() for k, v in self.tensors.items()
        }
        return Dataset(**arrays, **self.rest)


class LegToPlay(NamedTuple):
    """A leg as those who carry out its pieces are told of it: without models, which lie on boards."""

    leg: Leg
    shared: dict[str, Any]  # what parts hand out, as arrays
    moment: Moment
    decay: float
    cohort: int


@dataclass
class WorkPiece:
    """Some rows of a leg to train together."""

    rows: Ids
    memories: dict[str, dict[int, Any]]
    carry: dict[str, Any] | None
    adds: tuple[int, list[float]] | None = None  # row of the board of sums, and what each client weighs in it


@dataclass
class Judgement:
    """Some samples to judge the model on, of the pool or of the test set."""

    places: Array
    test: bool
    details: bool = False


def answer(setup: dict[str, Any], work: WorkPiece | Judgement) -> Any:
    """What a worker does with a piece of work, given everything it has been told."""
    job: Job = setup["job"]
    device_data = once(
        setup,
        "samples",
        lambda s: DeviceData(
            s.dataset(), job.dtype, channels_last=s.channels_last, stacked=s.stacked, record=s.record
        ),
    )
    if isinstance(work, Judgement):
        model = setup["models"].row(0)
        return device_data.judge(job.judging_net, model, work.places, work.test, details=work.details)
    leg, round_inputs, holdings = leg_of(setup, device_data.dataset, work)
    if device_data.record:  # a recorded step depends on sizes, so what changes size is padded
        padded = pad_varying(job.method.objective, round_inputs.shared)
        round_inputs = replace(round_inputs, shared=padded)
    training = LocalTraining(
        job.net.batch_last if device_data.stacked and job.net.convolves else job.net,
        job.method.objective,
        job.local,
        job.seed,
        device_data.channels_last,
    )
    client_jobs = client_jobs_of(job, leg, round_inputs, holdings, work)
    sizes = once(setup, "job", lambda job: common_sizes(job.roster.budget, job.local.batch))
    return carried_out(
        setup,
        work,
        client_jobs,
        lambda some: device_data.train(training, some, sizes),
        len(client_jobs) if device_data.stacked else 1,
    )


def leg_of(
    setup: dict[str, Any], dataset: Dataset, work: WorkPiece, device: torch.device | str = "cpu"
) -> tuple[Leg, RoundInputs, Holdings]:
    """The leg that a piece of work belongs to, with its models on the device that trains."""
    job: Job = setup["job"]
    models: Board = setup["models"]
    holdings = holdings_of(setup, dataset)
    told: LegToPlay = setup["leg"]
    leg = told.leg
    rows = models.tree()
    start = {k: v[1:] for k, v in rows.items()} if leg.stacked else models.row(1)
    anchor = None if leg.anchor is None else _there(models.row(0), device)
    leg = replace(leg, start=_there(start, device), anchor=anchor)
    store = ClientStore(as_tensors(work.memories))
    shared = _there(as_tensors(told.shared), device)
    return leg, RoundInputs(job.roster, shared, store, told.moment, told.decay, told.cohort), holdings


def client_jobs_of(
    job: Job, leg: Leg, round_inputs: RoundInputs, holdings: Holdings, work: WorkPiece
) -> list[ClientJob]:
    """One job a client, each with the visit that it goes on with."""
    client_jobs = [make_client_job(job, leg, int(r), round_inputs, holdings) for r in work.rows]
    if work.carry is not None:
        for i, each in enumerate(client_jobs):
            moved = as_tensors({k: v[i] for k, v in work.carry["moved"].items()})
            each.before = Handed(_there(moved, next(iter(leg.start.values())).device))
            each.work, each.steps = float(work.carry["work"][i]), int(work.carry["steps"][i])
    return client_jobs


def carried_out(
    setup: dict[str, Any], work: WorkPiece, client_jobs: list[ClientJob], train: Train, together: int
) -> dict[int, ClientResult]:
    """Train these clients. Their models, or the sum of them, are left on the boards; the rest comes back."""
    returns = (
        train(client_jobs)
        if work.adds is None
        else _added(setup["sums"], train, together, client_jobs, work.adds)
    )
    back: dict[int, ClientResult] = {}
    for row, client_job, done in zip(work.rows, client_jobs, returns, strict=True):
        if work.adds is None and done.message is None:
            setup["answers"].write(int(row), done.params, False)
            done = replace(done, params={}, went=_how_far(setup["job"], client_job, done))
        back[int(row)] = _to_send(replace(done, moved={}))
    return back


def _how_far(job: Job, client_job: ClientJob, done: ClientResult) -> float | None:
    """How far the leg took a model, measured here, where its numbers are at hand. The server would have all clients'
    models to look at while every core waits for it. On a GPU nothing is measured, since each look would be waited
    for."""
    if next(iter(client_job.start.values())).device.type != "cpu":
        return None
    names = [*job.net.trainable, *(job.net.buffers if job.batch_norm == "average" else ())]
    known = done.moved if client_job.before is None else {}
    total = 0.0
    for name in (name for name in names if done.params[name].is_floating_point()):
        change = known[name] if name in known else done.params[name] - client_job.start[name]
        total += float(torch.linalg.vector_norm(change, dtype=torch.float64)) ** 2
    return math.sqrt(total)


def _there(tree: Any, device: torch.device | str) -> Any:
    return tree if str(device) == "cpu" else map_tensors(lambda v: v.to(device), tree)


def _to_send(done: ClientResult) -> ClientResult:
    """A client's answer for the pipe: arrays, since tensors would take a file handle each."""
    return converted(done, as_arrays)


def as_sent(done: ClientResult) -> ClientResult:
    """The inverse of ``_to_send``."""
    return converted(done, as_tensors)


def converted(done: ClientResult, convert: Callable[[Any], Any]) -> ClientResult:
    """A client's answer with every tree in it converted."""
    trees = {name: convert(getattr(done, name)) for name in ("params", "uploads", "memory")}
    message = done.message
    if message is not None:
        message = replace(message, sent=[convert(tree) for tree in message.sent])
    return replace(done, message=message, **trees)


def holdings_of(setup: dict[str, Any], dataset: Dataset) -> Holdings:
    """The clients' samples, of lists that all workers share."""

    def made(lists: dict[str, Tensor]) -> Holdings:
        return Holdings(Federation(dataset, lists["indices"].numpy(), lists["offsets"].numpy()))

    return once(setup, "lists", made)


def _added(
    board: Board, train: Train, size: int, client_jobs: list[ClientJob], adds: tuple[int, list[float]]
) -> list[ClientResult]:
    """Train a block and leave sum of weight x (model - start) in the board, of the clients that are sound."""
    row, weights = adds
    total = {
        k: torch.zeros(v.shape, dtype=torch.float64, device=v.device) for k, v in client_jobs[0].start.items()
    }
    returns: list[ClientResult] = []
    for first in range(0, len(client_jobs), size):
        some = client_jobs[first : first + size]
        for each, trained, weight in zip(some, train(some), weights[first : first + size], strict=True):
            done = trained
            if done.message is not None:  # a message is decoded by itself, so it may be here as at the server
                model = decode_model(each.encoders, done.message, each.anchor, done.params)
                done = replace(done, params=model, message=None)
            trees = [done.params, *done.uploads.values()]
            done.sound = all(
                bool(torch.isfinite(v).all()) for t in trees for v in t.values() if v.is_floating_point()
            )
            for name, value in total.items() if done.sound else ():
                change = done.params[name].to(torch.float64, copy=True)  # one piece of memory for all three
                value += change.sub_(each.start[name]).mul_(weight)
            returns.append(replace(done, params={}, moved={}))
    board.write(row, total, False)
    return returns


def once(setup: dict[str, Any], name: str, make: Callable[[Any], Made]) -> Made:
    """Something made of a piece of set-up, kept until that piece changes."""
    known = setup.get(f"made of {name}")
    if known is None or known[0] is not setup[name]:
        known = setup[f"made of {name}"] = setup[name], make(setup[name])
    made: Made = known[1]
    return made


def shareable(array: Array, channels_last: bool = False) -> Tensor:
    """An array as a tensor that other processes can see, images in the layout that convolves fastest."""
    value = tensor_of(np.ascontiguousarray(array))
    if channels_last and value.dim() == 4:
        value = value.contiguous(memory_format=torch.channels_last)
    return value

"""The fast engine: many clients at once, on all cores or on a GPU.

It runs the client function of ``unskew.core.client`` and nothing else. On a CPU every core has a worker with one
thread; convolutions go one client at a time, channels last; dense models are stacked, a few clients together,
since one large product is faster than many small ones. What was picked is in ``choice``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.arrays import Array
from unskew.core.client import ClientJob, ClientResult
from unskew.core.dispatch import gather_results, make_client_job, weigh_results
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.exchanged_rows import pad_varying
from unskew.core.held import Made
from unskew.core.holdings import Holdings
from unskew.core.step import LocalTraining
from unskew.core.store import OWN_MODEL, ClientStore
from unskew.core.task import Answers
from unskew.core.types import Ids, Leg, Tree, Update
from unskew.core.upload import decode_model
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.data.mapped import Mapped, is_mapped
from unskew.engines.cpu.summed import Summed, blocks, only_sum, raw_weights
from unskew.engines.cpu.workers import Board, Crew, as_arrays, as_tensors, keep_memory
from unskew.engines.device_data import DeviceData, tensor_of
from unskew.engines.here import Here
from unskew.machine.cores import cores
from unskew.notices import warn
from unskew.progress import working

DENSE_BLOCK = 5
"""Dense clients stacked in one worker: more fall out of its cache (measured: 5 to 10 are best)."""


class FastCPU(Here):
    """One worker a core over shared memory; with one worker, the same in this process."""

    name = "fast"

    def __init__(self, workers: int | None = None, block: int | None = None, record: bool = False):
        self.count, self.block, self.record = workers or cores(), block, record
        self.crew: Crew | None = None
        self.boards: dict[str, Board] = {}
        self.told: dict[str, object] = {}
        self.inline: dict[str, Any] = {}
        if self.count == 1:
            keep_memory()

    def choice(self, run: RunPlan) -> str:
        """What runs, in words."""
        job = run.job
        if self.stack(job) == 1:
            how = "one client at a time" + (
                ", channels last" if job.net.runs_channels_last(job.roster.dataset.shape) else ""
            )
        else:
            how = f"{self.stack(job)} clients stacked" + (", steps recorded" if self.record else "")
        return f"{self.count} single-threaded worker{'s' if self.count > 1 else ''}, {how}"

    def stack(self, job: Job) -> int:
        """How many clients are stacked: dense ones or as many as asked for, unless vmap cannot run their model."""
        asked = self.block or (1 if job.net.convolves else DENSE_BLOCK)
        return asked if asked == 1 or job.net.stackable(job.roster.dataset.shape) else 1

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        store = round_inputs.store
        if not len(rows):
            return gather_results(job, leg, rows, [])
        self._brief(job)
        template = {k: v[0] for k, v in leg.start.items()} if leg.stacked else leg.start
        models = self._board("models", template, 1 + (len(leg.clients) if leg.stacked else 1))
        if only_sum(job, leg):
            return self._summed(job, leg, rows, round_inputs, models)
        answers = self._board("answers", template, len(leg.clients))
        models.write(0, leg.anchor or template, False)
        models.write(1, leg.start, leg.stacked)
        order = replace(leg, start={}, anchor={} if leg.anchor is not None else None, carry=None)
        self._tell(
            "leg", (order, as_arrays(dict(round_inputs.shared)), round_inputs.moment, round_inputs.decay)
        )
        work = [self._piece(job, leg, group, store) for group in self._groups(job, leg, rows)]
        back: dict[int, ClientResult] = {
            row: done for found in self._map(work) for row, done in found.items()
        }
        returns = [_as_sent(back[int(row)]) for row in rows]
        if returns[0].message is not None:
            return gather_results(job, leg, rows, returns)
        at = torch.from_numpy(rows)
        params = {k: v[at] for k, v in answers.tree().items()}
        base = {k: v[at] for k, v in leg.start.items()} if leg.stacked else leg.start
        moved = {k: params[k] - base[k] for k in job.net.trainable}
        if leg.carry is not None:
            moved = {k: v + leg.carry.moved[k][at] for k, v in moved.items()}
        return gather_results(job, leg, rows, returns, params, moved)

    def _summed(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs, models: Board) -> Update:
        """A plain round of a linear rule: workers add the models up in fixed blocks and send no model back."""
        models.write(0, leg.start, False)
        models.write(1, leg.start, False)
        store = round_inputs.store
        order = replace(leg, start={}, anchor=None, carry=None)
        self._tell(
            "leg", (order, as_arrays(dict(round_inputs.shared)), round_inputs.moment, round_inputs.decay)
        )
        raw = raw_weights(job, weigh_results(leg, rows, round_inputs.roster))
        groups = blocks(rows)
        wide = {k: torch.empty(v.shape, dtype=torch.float64, device="meta") for k, v in leg.start.items()}
        sums = self._board("sums", wide, len(groups))
        weight = dict(zip(rows.tolist(), raw.tolist(), strict=True))
        work = []
        for number, group in enumerate(groups):
            piece = self._piece(job, leg, group, store)
            piece.adds = number, [weight[r] for r in group.tolist()]
            work.append(piece)
        back: dict[int, ClientResult] = {
            row: done for found in self._map(work) for row, done in found.items()
        }
        returns = [_as_sent(back[int(row)]) for row in rows]
        held = gather_results(job, leg, rows, returns, {}, {})
        total = {k: v[: len(groups)].clone() for k, v in sums.tree().items()}
        return Summed.of(held, total, raw, torch.tensor([done.sound for done in returns]))

    def judged(
        self,
        job: Job,
        model: Tree,
        places: Array | None,
        made: Made | None = None,
        details: bool = False,
    ) -> Answers:
        if made is not None:  # what a few clients made is nowhere but here
            return DeviceData(self.dataset, job.dtype).judge(job.judging_net, model, places, made=made)
        self._brief(job)
        board = self._board("models", model, 2)
        board.write(0, model, False)
        count = len(self.dataset.y_test) if places is None else len(places)
        wanted = np.arange(count) if places is None else np.asarray(places)
        blocks = job.judging_net.blocks(count)
        found = self._map([Judgement(wanted[block], places is None, details) for block in blocks])
        order = np.argsort(np.concatenate(blocks))
        return {name: np.concatenate([f[name] for f in found])[order] for name in found[0]}

    def again(self) -> FastCPU:
        twin = FastCPU(1, self.block, self.record)  # it has one client to train
        twin.hold(Holdings(self.holdings.federation))
        return twin

    def close(self) -> None:
        if self.crew is not None:
            self.crew.close()
        self.crew, self.boards, self.told, self.inline = None, {}, {}, {}

    @property
    def recordings(self) -> dict[Any, Any]:
        """The steps that were recorded in this process."""
        made = self.inline.get("made of samples")
        return {} if made is None else made[1].recordings

    def _brief(self, job: Job) -> None:
        """Tell the workers what they do not know yet: the job, the samples, who holds which."""
        if self.told.get("job") is not job:
            self.told["job"] = job
            if self.count > 1 and (problem := untold(job)):
                warn(
                    f"one process trains instead of {self.count}, since the job cannot be sent to others ({problem}): "
                    "define models and parts in a module, not in a function",
                    stacklevel=2,
                )
                self.count = 1
            self._tell("job", job)
        samples, federation = self.dataset, self.holdings.federation
        layout, stacked = job.net.runs_channels_last(samples.shape), self.stack(job) > 1
        use = (job.dtype, layout, stacked)
        if self.told.get("samples") is not samples or self.told.get("use of samples") != use:
            self.told |= {"samples": samples, "use of samples": use}
            arrays = {k: getattr(samples, k) for k in ("x", "y", "x_test", "y_test")}
            tensors = {k: is_mapped(v) or _shareable(v, layout) for k, v in arrays.items()}
            rest = {k: getattr(samples, k) for k in ("name", "labels", "kind", "mean", "std")}
            self._tell("samples", SharedSamples(tensors, rest, layout, stacked, self.record))
        if self.told.get("federation") is not federation:
            self.told["federation"] = federation
            lists = {"indices": federation.indices, "offsets": federation.offsets}
            self._tell("lists", {k: _shareable(v) for k, v in lists.items()})

    def _board(self, name: str, model: Tree, rows: int) -> Board:
        """A board with at least this many rows; a larger one replaces it when needed."""
        board = self.boards.get(name)
        if board is None or not board.fits(model, rows):
            board = self.boards[name] = Board.like(model, rows)
            self._tell(name, board)
        return board

    def _groups(self, job: Job, leg: Leg, rows: Ids) -> list[Ids]:
        """Rows that are worked on together, largest first: the same groups for any number of workers."""
        # as they were before views: to rank a cohort is not worth counting what all clients make of their data
        sizes = job.roster.budget[leg.clients[rows]]
        ordered = rows[np.argsort(-sizes, kind="stable")]
        size = self.stack(job)
        return [ordered[i : i + size] for i in range(0, len(ordered), size)]

    def _piece(self, job: Job, leg: Leg, group: Ids, store: ClientStore) -> WorkPiece:
        """One group with what only these clients need: their memories, and the visit they go on with."""
        clients = [int(c) for c in leg.clients[group]]
        known = {
            p: {c: store.get(p, c, {}) for c in clients if store.has(p, c)}
            for p in store.rows
            if p != OWN_MODEL
        }
        carry = None
        if leg.carry is not None:
            taken = leg.carry.take(group)
            carry = {
                "moved": as_arrays(taken.moved),
                "work": taken.work.numpy(),
                "steps": taken.steps.numpy(),
            }
        return WorkPiece(group, as_arrays(known), carry)

    def _tell(self, name: str, value: Any) -> None:
        if self.count == 1:
            self.inline[name] = value
            return
        if self.crew is None:
            self.crew = Crew(self.count, answer)
        self.crew.tell(name, value)

    def _map(self, work: list[Any]) -> list[Any]:
        with working("groups of clients or samples", len(work)) as advance:
            if self.crew is not None:
                return self.crew.map(work, advance)
            found = []
            for piece in work:
                found.append(answer(self.inline, piece))
                advance(1)
            return found


def untold(value: Any) -> str:
    """Why a value cannot be sent to another process; nothing if it can."""
    try:
        ForkingPickler.dumps(value)
    except Exception as problem:  # pickling asks anything of anybody
        return str(problem).splitlines()[0] if str(problem) else type(problem).__name__
    return ""


@dataclass
class SharedSamples:
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
    device_data = _once(
        setup,
        "samples",
        lambda s: DeviceData(
            s.dataset(), job.dtype, channels_last=s.channels_last, stacked=s.stacked, record=s.record
        ),
    )
    models: Board = setup["models"]
    if isinstance(work, Judgement):
        return device_data.judge(job.judging_net, models.row(0), work.places, work.test, details=work.details)
    holdings = _once(setup, "lists", lambda lists: _clients(device_data.dataset, lists))
    leg, shared, moment, decay = setup["leg"]
    rows = models.tree()
    start = {k: v[1:] for k, v in rows.items()} if leg.stacked else models.row(1)
    leg = replace(leg, start=start, anchor=None if leg.anchor is None else models.row(0))
    store = ClientStore(as_tensors(work.memories))
    training = LocalTraining(
        job.net,
        job.method.objective,
        job.local,
        job.seed,
        device_data.channels_last,
    )
    given = as_tensors(shared)
    if device_data.record:  # a recorded step depends on sizes, so what changes size is padded
        given = pad_varying(job.method.objective, given)
    round_inputs = RoundInputs(job.roster, given, store, moment, decay)
    client_jobs = [make_client_job(job, leg, int(r), round_inputs, holdings) for r in work.rows]
    if work.carry is not None:
        _go_on(client_jobs, work.carry)
    returns = (
        device_data.train(training, client_jobs)
        if work.adds is None
        else _added(setup["sums"], device_data, training, client_jobs, work.adds)
    )
    back: dict[int, ClientResult] = {}
    for row, done in zip(work.rows, returns, strict=True):
        if work.adds is None and done.message is None:
            setup["answers"].write(int(row), done.params, False)
            done = replace(done, params={})
        back[int(row)] = _to_send(replace(done, moved={}))
    return back


def _to_send(done: ClientResult) -> ClientResult:
    """A client's answer for the pipe: arrays, since tensors would take a file handle each."""
    message = done.message
    return replace(
        done,
        params=as_arrays(done.params),
        uploads=as_arrays(done.uploads),
        memory=as_arrays(done.memory),
        message=None if message is None else replace(message, sent=[as_arrays(s) for s in message.sent]),
    )


def _as_sent(done: ClientResult) -> ClientResult:
    """The inverse of ``_to_send``."""
    message = done.message
    return replace(
        done,
        params=as_tensors(done.params),
        uploads=as_tensors(done.uploads),
        memory=as_tensors(done.memory),
        message=None if message is None else replace(message, sent=[as_tensors(s) for s in message.sent]),
    )


def _clients(dataset: Dataset, lists: dict[str, Tensor]) -> Holdings:
    """The clients' samples, of lists that all workers share."""
    return Holdings(Federation(dataset, lists["indices"].numpy(), lists["offsets"].numpy()))


def _added(
    board: Board,
    device_data: DeviceData,
    training: LocalTraining,
    client_jobs: list[ClientJob],
    adds: tuple[int, list[float]],
) -> list[ClientResult]:
    """Train a block and leave sum of weight x (model - start) in the board, of the clients that are sound."""
    row, weights = adds
    total = {k: torch.zeros(v.shape, dtype=torch.float64) for k, v in client_jobs[0].start.items()}
    size = len(client_jobs) if device_data.stacked else 1
    returns: list[ClientResult] = []
    for first in range(0, len(client_jobs), size):
        some = client_jobs[first : first + size]
        for e, trained, weight in zip(
            some, device_data.train(training, some), weights[first : first + size], strict=True
        ):
            done = trained
            if done.message is not None:  # a message is decoded by itself, so it may be here as at the server
                model = decode_model(e.encoders, done.message, e.anchor, done.params)
                done = replace(done, params=model, message=None)
            trees = [done.params, *done.uploads.values()]
            done.sound = all(
                bool(torch.isfinite(v).all()) for t in trees for v in t.values() if v.is_floating_point()
            )
            for name, value in total.items() if done.sound else ():
                value += weight * (done.params[name].to(torch.float64) - e.start[name])
            returns.append(replace(done, params={}, moved={}))
    board.write(row, total, False)
    return returns


def _go_on(client_jobs: list[ClientJob], carry: dict[str, Any]) -> None:
    """The visits these jobs continue."""
    for i, e in enumerate(client_jobs):
        e.moved = {k: torch.from_numpy(v[i]) for k, v in carry["moved"].items()}
        e.work, e.steps = float(carry["work"][i]), int(carry["steps"][i])


def _once(setup: dict[str, Any], name: str, make: Any) -> Any:
    """Something made of a piece of set-up, kept until that piece changes."""
    made = setup.get(f"made of {name}")
    if made is None or made[0] is not setup[name]:
        made = setup[f"made of {name}"] = setup[name], make(setup[name])
    return made[1]


def _shareable(array: Array, channels_last: bool = False) -> Tensor:
    """An array as a tensor that other processes can see, images in the layout that convolves fastest."""
    value = tensor_of(np.ascontiguousarray(array))
    if channels_last and value.dim() == 4:
        value = value.contiguous(memory_format=torch.channels_last)
    return value

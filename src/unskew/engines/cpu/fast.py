"""The fast engine: many clients at once, on all cores or on a GPU.

It runs the client function of ``unskew.core.client`` and nothing else. On a CPU every core has a worker with one
thread. Models that convolve are trained one client at a time, channels last. Dense models are stacked, a few clients
together, since one large product is faster than many small ones. So are models with few, small filters; the batch is
then the innermost axis (``unskew.models.batch_last``). ``choice`` says what was picked. Who carries the pieces of work
out is a seam of its own (``unskew.engines.carrier``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from multiprocessing import current_process
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.client import ClientResult
from unskew.core.dispatch import gather_results, weigh_results
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.held import Made
from unskew.core.holdings import Holdings
from unskew.core.memory_names import OWN_MODEL
from unskew.core.store import ClientStore
from unskew.core.task import Answers
from unskew.core.types import Ids, Leg, Tree, Update
from unskew.data.mapped import is_mapped
from unskew.engines.carrier import Carrier, InProcess
from unskew.engines.cpu.pieces import Judgement, LegToPlay, SharedPool, WorkPiece, answer, as_sent, shareable
from unskew.engines.cpu.summed import Summed, blocks, only_sum, raw_weights, sum_is_all
from unskew.engines.cpu.workers import Board, Crew, as_arrays, keep_memory
from unskew.engines.here import Here
from unskew.errors import first_line
from unskew.machine.cores import cores
from unskew.machine.memory import memory_sentence
from unskew.machine.processes import can_fork, of_script, script_can_be_loaded
from unskew.notices import warn
from unskew.progress import working

DENSE_BLOCK = 10
"""Dense clients stacked in one worker. Fewer spend their time on starting operations; more do not fit its cache."""

SMALL_PATCHES = 2.5 * 2**20
"""Bytes of one client's patches in a step. Up to so many, and up to ``FEW_OUTPUTS``, clients stacked with the batch
innermost are faster than one after the other by oneDNN. Measured: ``thesis_mnist`` is 1.8 times as fast in batches of
10 (1.2 MiB, 16 outputs); ``lenet`` the same (2.9 MiB, 9); ``small_cnn`` 0.8 times (4 MiB, 61)."""

FEW_OUTPUTS = 32
"""Multiply-adds that each value of a patch takes part in, on average: as many as a filter has outputs."""

BLOCK_OF_PATCHES = 12 * 2**20
"""Bytes of all stacked clients' patches: more do not fit the cache that cores share."""

PADDED = 1.25
"""Clients are stacked where filling short batches up makes at most so many times the samples."""


class FastCPU(Here):
    """One worker a core over shared memory; with one worker, the same in this process."""

    name = "fast"

    def __init__(self, workers: int | None = None, block: int | None = None, record: bool = False):
        self.count, self.block, self.record = workers or cores(), block, record
        self.crew: Carrier | None = None
        self.boards: dict[str, Board] = {}
        self.told: dict[str, object] = {}
        self.loads_script = False
        self._stacks: tuple[Job, int] | None = None
        keep_memory()  # models of a whole cohort come and go here, too

    def choice(self, run: RunPlan) -> str:
        """What runs, in words."""
        job = run.job
        if self.stack(job) == 1:
            how = "one client at a time" + (
                ", channels last" if job.net.runs_channels_last(job.roster.dataset.shape) else ""
            )
        else:
            how = f"{self.stack(job)} clients stacked"
        recorded = ", steps recorded" if self.record else ""
        return f"{self.count} single-threaded worker{'s' if self.count > 1 else ''}, {how}{recorded}"

    def stack(self, job: Job) -> int:
        """How many clients are stacked: dense ones, those with few, small filters, or as many as were asked for. 1
        where vmap cannot run their model."""
        # looked at once: it counts what all clients hold
        if self._stacks is None or self._stacks[0] is not job:
            net = job.net.batch_last if job.net.convolves else job.net
            usual = DENSE_BLOCK if not job.net.convolves else small_filters(job) if self.record else 1
            asked = self.block or usual
            shape = job.roster.dataset.shape
            found = asked if asked == 1 or net.stackable(shape, loops=False) else 1
            self._stacks = job, found
        return self._stacks[1]

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        store = round_inputs.store
        if not len(rows):
            return gather_results(job, leg, rows, [])
        self._brief(job)
        template = {k: v[0] for k, v in leg.start.items()} if leg.stacked else leg.start
        models = self._board("models", template, 1 + (len(leg.clients) if leg.stacked else 1))
        if only_sum(job, leg):
            return self._summed(job, leg, rows, round_inputs, models)
        if "answers" in self.boards and self.boards["answers"].is_shown():  # somebody keeps what was on it
            del self.boards["answers"]
        answers = self._board("answers", template, len(leg.clients))
        models.write(0, leg.anchor or template, False)
        models.write(1, leg.start, leg.stacked)
        order = replace(leg, start={}, anchor={} if leg.anchor is not None else None, carry=None)
        self._tell_leg(order, round_inputs)
        work = [self._piece(job, leg, group, store) for group in self._groups(job, leg, rows)]
        returns = self._trained(work, rows)
        if returns[0].message is not None:
            return gather_results(job, leg, rows, returns)
        at, whole = torch.from_numpy(rows), sum_is_all(job, leg)
        if whole and len(rows) == len(leg.clients):
            # summed before there is another leg, so it need not be copied
            params = {k: v[: len(rows)] for k, v in answers.tree().items()}
        else:
            params = {k: v[at] for k, v in answers.tree().items()}
        base = {k: v[at] for k, v in leg.start.items()} if leg.stacked else leg.start
        moved = {} if whole else {k: params[k] - base[k] for k in job.net.trainable}
        if leg.carry is not None:
            moved = {k: v + leg.carry.moved[k][at] for k, v in moved.items()}
        return gather_results(job, leg, rows, returns, params, moved)

    def _trained(self, work: list[WorkPiece], rows: Ids) -> list[ClientResult]:
        """What these pieces of work bring back, in the order of the rows; models are on the boards."""
        back: dict[int, ClientResult] = {}
        for found in self._map(work):
            back |= found
        return [as_sent(back[int(row)]) for row in rows]

    def _summed(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs, models: Board) -> Update:
        """A plain round of a linear rule: workers add the models up in fixed blocks and send no model back."""
        models.write(0, leg.start, False)
        models.write(1, leg.start, False)
        store = round_inputs.store
        order = replace(leg, start={}, anchor=None, carry=None)
        self._tell_leg(order, round_inputs)
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
        returns = self._trained(work, rows)
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
            return super().judged(job, model, places, made, details)
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
        self.crew, self.boards, self.told = None, {}, {}

    @property
    def recordings(self) -> dict[Any, Any]:
        """The steps that were recorded in this process."""
        made = self.crew.setup.get("made of samples") if isinstance(self.crew, InProcess) else None
        return {} if made is None else made[1].recordings

    def _brief(self, job: Job) -> None:
        """Tell the workers what they do not know yet: the job, the samples, and who holds which of them."""
        news = self.told.get("job") is not job
        if news:
            self.told["job"] = job
            self.check(job)
        self._share_lists()  # first: workers that are forked by then would take the server's own along
        if news:
            self._tell("job", job)
        samples = self.dataset
        stacked = self.stack(job) > 1
        layout = not stacked and job.net.runs_channels_last(samples.shape)
        use = (job.dtype, layout, stacked)
        if self.told.get("samples") is not samples or self.told.get("use of samples") != use:
            self.told |= {"samples": samples, "use of samples": use}
            arrays = {k: getattr(samples, k) for k in ("x", "y", "x_test", "y_test")}
            tensors = {k: is_mapped(v) or shareable(v, layout) for k, v in arrays.items()}
            rest = {k: getattr(samples, k) for k in ("name", "labels", "kind", "mean", "std")}
            self._tell("samples", SharedPool(tensors, rest, layout, stacked, self.record))

    def _share_lists(self) -> None:
        """Put who holds which samples where all workers see it, and the server too."""
        federation = self.holdings.federation
        if self.told.get("federation") is federation:
            return
        self.told["federation"] = federation
        lists = {"indices": shareable(federation.indices), "offsets": shareable(federation.offsets)}
        if self.count > 1:
            for values in lists.values():
                values.share_memory_()  # type: ignore[no-untyped-call]
            federation.move_lists(**{name: values.numpy() for name, values in lists.items()})
        self._tell("lists", lists)

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
        if self.block is None and len(rows) < 4 * size:  # else few workers would have something to do
            size = math.ceil(size / 2)
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

    def check(self, job: Job) -> None:
        """See to it that the job can be sent to whoever carries it out."""
        if self.count == 1:
            return
        problem, self.loads_script = untold(job)
        if self.loads_script and not can_fork() and not script_can_be_loaded():
            problem = "they cannot load what was typed here"
        if problem:
            problem = (
                f"the job cannot be sent to others ({problem}): "
                "define models and parts in a module, not in a function"
            )
        elif current_process().daemon:
            problem = "a process of a multiprocessing.Pool may start no others; write workers = 1"
        if problem:
            warn(f"one process trains instead of {self.count}, since {problem}", stacklevel=2)
            self.count = 1

    def hire(self) -> Carrier:
        """Whoever carries the work out."""
        return InProcess(answer) if self.count == 1 else Crew(self.count, answer, self.loads_script)

    def _tell_leg(self, leg: Leg, round_inputs: RoundInputs) -> None:
        """Tell what the clients of a leg are asked for; the leg is without its models."""
        shared = as_arrays(dict(round_inputs.shared))
        told = LegToPlay(leg, shared, round_inputs.moment, round_inputs.decay, round_inputs.cohort)
        self._tell("leg", told)

    def _tell(self, name: str, value: Any) -> None:
        if self.crew is None:
            self.crew = self.hire()
        self.crew.tell(name, value)

    def _map(self, work: list[Any]) -> list[Any]:
        assert self.crew is not None  # it was told of the job
        with working("groups of clients or samples", len(work)) as advance:
            return self.crew.map(work, advance)


def small_filters(job: Job) -> int:
    """How many clients with few, small filters are stacked: 1 where that is no gain."""
    shape, batch = job.roster.dataset.shape, job.local.batch
    values = job.net.patch_values(shape) if len(shape) == 3 else math.inf
    patches = values * batch * job.dtype.itemsize
    if not 0 < patches <= SMALL_PATCHES or job.net.multiply_adds(shape) > FEW_OUTPUTS * values:
        return 1
    held = job.roster.budget
    filled = (np.ceil(held / batch) * batch).sum()
    return min(DENSE_BLOCK, int(BLOCK_OF_PATCHES // patches)) if filled <= PADDED * held.sum() else 1


def untold(value: Any) -> tuple[str, bool]:
    """Why a value cannot be sent to another process, nothing if it can; and whether the script that runs defines it."""
    try:
        return "", of_script(value)
    except Exception as problem:  # pickling asks anything of anybody
        if memory_sentence(problem) is not None:
            raise
        return first_line(problem), False

"""The fast engine on a GPU: many clients at once, their steps captured as graphs and replayed.

For models of this size, launching kernels costs more than running them. So steps are recorded once, over tensors that
stay where they are. A leg copies its models and its plan into these tensors and replays. The plan lies on the device
and a graph counts its own steps, so a replay takes nothing from the host. Clients are stacked (``stacked_graphs``) or
run side by side (``stream_graphs``), as ``grouping`` decides.

On a CPU (``capture=False``) the same code runs without graphs; the tests use that.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from unskew.core.client import ClientJob
from unskew.core.dispatch import gather_results, make_client_job
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.exchanged_rows import pad_varying
from unskew.core.holdings import Holdings
from unskew.core.plan import batches_in
from unskew.core.roster import Roster
from unskew.core.step import LocalTraining
from unskew.core.types import Ids, Leg, Update
from unskew.engines.client_stack import ClientStack, stack_clients
from unskew.engines.device_data import DeviceData
from unskew.engines.gpu.grouping import Grouping, Way
from unskew.engines.gpu.prefetch import Prefetch
from unskew.engines.gpu.stage import Room, Stage, padded_to
from unskew.engines.gpu.stream_graphs import EXACT, EXACT_COMPILED
from unskew.engines.here import Here
from unskew.engines.stacked import StackedResults, unstack_results
from unskew.models.kernels.layout import power_of_two
from unskew.notices import warn

KEPT_STAGES = 3
"""Stages that are kept where batch sizes are tuned client by client, and the largest differs from leg to leg."""

NO_MEMORY = ("out of memory", "ALLOC_FAILED")
"""What errors say when memory is short: cuBLAS and graphs take memory beside torch, and raise errors of their own."""


class FastGPU(Here):
    """Stacked clients and captured steps on one device.

    ``stack``: whether clients are stacked (where the model can be) or run side by side; by default their number and
    their model decide. ``kernels``: whether one kernel then convolves for all; by default in bf16. ``memory``: the
    bytes that blocks are sized to; by default all that the device has. ``rooms`` tells for which sizes tensors were
    laid out and steps captured, one entry each time.
    """

    name = "fast"

    def __init__(
        self,
        device: str = "cuda",
        block: int | None = None,
        compile: bool = False,
        precision: str = "fp32",
        capture: bool | None = None,
        stack: bool | None = None,
        memory: int | None = None,
        kernels: bool | None = None,
    ):
        self.device = torch.device(device)
        self.capture = self.device.type == "cuda" if capture is None else capture
        self.compile, self.precision = compile, precision
        self.grouping = Grouping(self.device, precision, block, stack, memory, kernels)
        self.rooms: list[Room] = []
        self._data: DeviceData | None = None
        self._stages: list[Stage] = []  # the last one used comes last
        self._prefetch = Prefetch()
        if self.device.type == "cuda":
            _arithmetic(precision)

    def hold(self, holdings: Holdings) -> None:
        super().hold(holdings)
        self.grouping.sample_bytes = self.dataset.x.nbytes

    def choice(self, run: RunPlan) -> str:
        """What runs, in words."""
        job, together = run.job, _together(run.job, run.cohort)
        how = "captured graphs" if self.capture else "no graphs"
        way = self.grouping.way(job, together)
        where = way.value
        said = f"{self.device}, up to {self.grouping.most(job, together)} clients {where}, {how}, {self.precision}"
        last = ", channels last" * self._channels_last(job)
        compiled = ", compiled" * (self.compile and way is not Way.KERNELS)  # the kernels are fused already
        return said + last + compiled

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        self.device_data(job)  # the model goes to the device before plans are made for it
        round_inputs = self.padded(job, round_inputs)
        client_jobs = [
            make_client_job(job, leg, int(row), round_inputs, self.holdings, self._prefetch.made)
            for row in rows
        ]
        if not client_jobs:
            return gather_results(job, leg, rows, [])
        done = self.trained(job, leg, client_jobs, round_inputs)
        return gather_results(job, leg, rows, done.returns, done.params, done.moved)

    def padded(self, job: Job, round_inputs: RoundInputs) -> RoundInputs:
        """What parts hand out, where its size may change padded to what captured steps can take."""
        return replace(round_inputs, shared=pad_varying(job.method.objective, round_inputs.shared))

    def trained(
        self, job: Job, leg: Leg, client_jobs: list[ClientJob], round_inputs: RoundInputs
    ) -> StackedResults:
        """These clients' answers, in the order given."""
        device_data, together = self.device_data(job), _together(job, round_inputs.cohort)
        training = LocalTraining(job.net, job.method.objective, job.local, job.seed)
        client_jobs, moved = device_data.make_room(client_jobs)
        if moved:  # captured steps read the pool where it was
            self._stages.clear()
        self._prefetch.begin(leg, round_inputs.t, (each.plan for each in client_jobs))
        by_size = sorted(range(len(client_jobs)), key=lambda i: -client_jobs[i].plan.steps)
        blocks: list[tuple[list[int], StackedResults]] = []
        while by_size:
            size = min(len(by_size), self.grouping.most(job, together))
            chosen, by_size = by_size[:size], by_size[size:]
            places = sorted(chosen)  # a block of all comes back in the order asked for
            done: StackedResults | None = None
            try:
                with self._current():
                    some = [client_jobs[i] for i in places]
                    done = self._train(job, leg, training, device_data, some, round_inputs, not by_size)
            except RuntimeError as error:
                if not any(sign in str(error) for sign in NO_MEMORY):
                    raise
            if done is None:  # only here, for an error keeps the memory of all it passed through
                by_size = chosen + by_size
                self._halve(self.grouping.room(job, together, size))
                continue
            blocks.append((places, done))
        return StackedResults.joined(blocks)

    def device_data(self, job: Job) -> DeviceData:
        if next(iter(job.net.initial.values())).device.type != self.device.type:
            job.net.to(self.device)
        last, here = self._channels_last(job), self._data
        alike = here is not None and (here.dtype, here.channels_last) == (job.dtype, last)
        if here is not None and alike and here.dataset is self.dataset:
            return here
        self._data = DeviceData(self.dataset, job.dtype, self.device, channels_last=last)
        self._stages.clear()
        return self._data

    def again(self) -> FastGPU:
        wishes = self.grouping
        twin = FastGPU(
            str(self.device),
            wishes.block,
            self.compile,
            self.precision,
            self.capture,
            wishes.stack,
            wishes.memory,
            wishes.kernels,
        )
        twin.hold(Holdings(self.holdings.federation))
        return twin

    @property
    def plans_ahead(self) -> tuple[int, int]:
        """After the first leg: how many clients' plans were ready when their leg came, and how many were not."""
        return self._prefetch.ready, self._prefetch.late

    def close(self) -> None:
        self._data = None
        self._stages.clear()

    def _train(
        self,
        job: Job,
        leg: Leg,
        training: LocalTraining,
        device_data: DeviceData,
        client_jobs: list[ClientJob],
        round_inputs: RoundInputs,
        last: bool,
    ) -> StackedResults:
        together = _together(job, round_inputs.cohort)
        size = self.grouping.room(job, together, len(client_jobs))
        tuned = leg.settings.batch is not None
        if tuned:  # no bound is known beforehand, and sizes that differ a little are to share a stage
            steps, batch = (power_of_two(n) for n in _largest(client_jobs))
        else:
            steps, batch = _longest(job, round_inputs.roster, client_jobs)
        known = not tuned and leg.settings.per_class is None
        sizes = batch_sizes(job, round_inputs.roster) if known else batch
        few = sizes <= (EXACT_COMPILED if self.compile else EXACT)
        block = stack_clients(training, client_jobs, job.dtype, self.device)
        if any(block.draws.values()):  # there are no numbers for more rows than a batch may have
            batch = min(batch, max(each.plan.batch for each in client_jobs))
        # a graph of a short batch's own size takes no weights, by which batch norm tells padding among what is drawn
        exact = job.net.norms and few and not block.ragged
        exact = exact or job.net.mixes_rows(job.roster.dataset.shape)
        room = Room(size, steps, batch, exact, self.grouping.way(job, together))
        block = padded_to(room, block)
        stage = self._stage(training, device_data, room, block, keep=KEPT_STAGES if tuned else 1)
        stage.play(block)
        if last:  # while the GPU is at work
            self._prefetch.guess(job, leg, round_inputs)
        return unstack_results(training, device_data.pool, block)

    def _stage(
        self,
        training: LocalTraining,
        device_data: DeviceData,
        room: Room,
        block: ClientStack,
        keep: int,
    ) -> Stage:
        """A stage that this block fits, from before or new; a room of its own for each size of batch."""
        for at, stage in enumerate(self._stages):
            if stage.fits(training, room, block):
                self._stages.append(self._stages.pop(at))
                return stage
        del self._stages[: max(0, len(self._stages) + 1 - keep)]  # free memory before a new one takes its own
        self.rooms.append(room)
        self._stages.append(
            Stage(training, device_data, room, block, self.capture, self.compile, self.precision)
        )
        return self._stages[-1]

    def _current(self) -> contextlib.AbstractContextManager[Any]:
        """Streams and graphs belong to the current device, whichever device their tensors are on."""
        return torch.cuda.device(self.device) if self.device.type == "cuda" else contextlib.nullcontext()

    def _channels_last(self, job: Job) -> bool:
        """Where filters take one channel each, tensor cores' layout is faster; in fp32, which has none, slower."""
        shape = job.roster.dataset.shape
        return self.precision != "fp32" and job.net.filters_by_channel and job.net.runs_channels_last(shape)

    def _halve(self, size: int) -> None:
        """Make room for blocks of half this size."""
        largest = self.grouping.halve(size)
        self._stages.clear()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # other clients' steps may still write to what was freed
            torch.cuda.empty_cache()
        warn(
            f"{size} clients at once do not fit the GPU's memory; going on with {largest} at a time "
            f"(--block {largest} says so from the start)",
            stacklevel=3,
        )


def _together(job: Job, cohort: int) -> int:
    """How many clients take part in a round, at most."""
    return job.method.select.largest_cohort(cohort, job.roster.clients)


def _largest(client_jobs: list[ClientJob]) -> tuple[int, int]:
    """The most steps and the largest batch among these clients."""
    return max(each.plan.steps for each in client_jobs), max(each.plan.widest for each in client_jobs)


def _longest(job: Job, roster: Roster, client_jobs: list[ClientJob]) -> tuple[int, int]:
    """The most steps and the largest batch any client can have, so that graphs last."""
    here = _largest(client_jobs)
    largest = int(roster.budget.max())
    batch = min(job.local.batch, int(roster.sizes.max()))
    per_epoch = batches_in(largest, job.local.batch, job.local.last)
    whole = job.local.steps or int(np.ceil((job.local.epochs or 1.0) * per_epoch))
    return max(whole, here[0]), max(batch, here[1])


def batch_sizes(job: Job, roster: Roster) -> int:
    """How many different sizes the batches of these clients have, where they use all their data."""
    if not (job.net.convolves and job.net.norms):
        return 0  # nobody asks
    sizes, batch, last = roster.sizes, job.local.batch, job.local.last
    small = np.bincount(sizes[sizes < batch], minlength=batch)
    whole = sizes[sizes >= batch]
    short = np.bincount(whole % batch if last == "keep" else whole * 0, minlength=batch)
    return int(((small + short)[1:] > 0).sum()) + bool(len(whole))


def _arithmetic(precision: str) -> None:
    """Set the GPU's arithmetic for the whole process: repeatable, and TF32 only where it was asked for."""
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision in ("tf32", "bf16")

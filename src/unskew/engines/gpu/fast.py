"""The fast engine on a GPU: many clients at once, their steps captured as graphs and replayed.

Launching kernels costs more than running them for models of this size. So steps are recorded once, over tensors
that stay where they are; a leg copies its models and its plan into them and replays. The plan lies on the device
and a graph counts its own steps, so a replay takes nothing from the host. Dense models, and many clients with small
filters, are stacked (``stacked_graphs``); others run side by side (``stream_graphs``).

On a CPU (``capture=False``) the same code runs without graphs; the tests use that.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.client import ClientJob
from unskew.core.dispatch import gather_results, make_client_job
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.exchanged_rows import pad_varying
from unskew.core.held import Made
from unskew.core.holdings import Holdings
from unskew.core.plan import batches_in
from unskew.core.roster import Roster
from unskew.core.step import LocalTraining
from unskew.core.task import Answers
from unskew.core.types import Ids, Leg, Tree, Update, nbytes
from unskew.engines.client_stack import ClientStack, stack_clients
from unskew.engines.device_data import DeviceData
from unskew.engines.gpu.prefetch import Prefetch
from unskew.engines.gpu.stage import Room, Stage, Way, padded_to
from unskew.engines.gpu.stream_graphs import EXACT, EXACT_COMPILED, STREAMS
from unskew.engines.here import Here
from unskew.engines.stacked import StackedResults, unstack_results
from unskew.errors import RunFailed
from unskew.models.kernels.available import has_kernels
from unskew.models.kernels.layout import power_of_two
from unskew.notices import warn

SIDE_BY_SIDE, STACKED = 64, 256
"""Most clients in one block, unless asked for otherwise; more are trained block after block."""

SMALL_PATCHES = 8e6
"""Bytes of one client's patches (``models.patches``) up to which it is stacked: moving more takes longer than starting
its kernels one by one, some fifty of them at one a microsecond. Measured: 1.2 MB (job B) and 7 MB (McMahan's CNN,
B=10) gain, 13 MB (job A) loses."""

MANY_CLIENTS = 32
"""Clients a round from which those that convolve are stacked: fewer do not fill one large kernel, and side by side
they overlap. Measured: ``small_cnn`` with small batches is 1.5 times as fast side by side with ten clients, and 1.3
times as fast stacked with a hundred."""

LARGE_STEP = 5e9
"""Multiply-adds of a forward pass of one client's batch from which it fills the GPU by itself: cuDNN's convolutions are
faster then than kernels for all clients."""

FEW_CLIENTS = 2
"""Clients a round up to which those that convolve run side by side in any case."""

MODELS_EACH, PASSES = 7, 4
"""What a client takes of the GPU's memory, roughly: as many models (as sent, as trained, as it ended, its gradient, an
optimiser's two, as returned), and as many numbers for every one that a layer puts out (itself, its gradient, what lies
between)."""

KEPT_STAGES = 3
"""Where batch sizes are tuned client by client, legs differ in their largest: this many stages are kept."""

NO_MEMORY = ("out of memory", "ALLOC_FAILED")
"""What errors say when memory is short: cuBLAS and graphs take memory beside torch, and raise errors of their own."""


class FastGPU(Here):
    """Stacked clients and captured steps on one device.

    ``stack``: whether clients are stacked (where the model can be) or run side by side; by default as their number and
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
        self.block, self.compile, self.precision = block, compile, precision
        self.stack, self.memory, self.kernels = stack, memory, kernels
        self.rooms: list[Room] = []
        self.largest: int | None = None  # a block that did not fit halves this
        self._data: DeviceData | None = None
        self._stages: list[Stage] = []  # the last one used comes last
        self._ahead = Prefetch()
        self._decided: tuple[Any, Way] = (None, Way.SIDE_BY_SIDE)
        self._sized: tuple[Any, int] = (None, 1)
        if self.device.type == "cuda":
            _arithmetic(precision)

    def choice(self, run: RunPlan) -> str:
        """What runs, in words."""
        job, together = run.job, _together(run.job, run.cohort)
        how = "captured graphs" if self.capture else "no graphs"
        way = self._way(job, together)
        where = way.value
        said = f"{self.device}, up to {self._most(job, together)} clients {where}, {how}, {self.precision}"
        last = ", channels last" * self._channels_last(job)
        compiled = ", compiled" * (self.compile and way is not Way.KERNELS)  # the kernels are fused already
        return said + last + compiled

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        self.device_data(job)  # the model goes to the device before plans are made for it
        round_inputs = self.padded(job, round_inputs)
        client_jobs = [
            make_client_job(job, leg, int(row), round_inputs, self.holdings, self._ahead.made) for row in rows
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
        self._ahead.begin(leg, round_inputs.t, (e.plan for e in client_jobs))
        by_size = sorted(range(len(client_jobs)), key=lambda i: -client_jobs[i].plan.steps)
        blocks: list[tuple[list[int], StackedResults]] = []
        while by_size:
            size = min(len(by_size), self._most(job, together))
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
                self._halve(self._room(job, together, size))
                continue
            blocks.append((places, done))
        return StackedResults.joined(blocks)

    def judged(
        self,
        job: Job,
        model: Tree,
        places: Array | None,
        made: Made | None = None,
        details: bool = False,
    ) -> Answers:
        return self.device_data(job).judge(job.judging_net, model, places, made=made, details=details)

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
        alike = (
            self.block,
            self.compile,
            self.precision,
            self.capture,
            self.stack,
            self.memory,
            self.kernels,
        )
        twin = FastGPU(str(self.device), *alike)
        twin.hold(Holdings(self.holdings.federation))
        return twin

    @property
    def plans_ahead(self) -> tuple[int, int]:
        """After the first leg: how many clients' plans were ready when their leg came, and how many were not."""
        return self._ahead.ready, self._ahead.late

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
        size = self._room(job, together, len(client_jobs))
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
            batch = min(batch, max(e.plan.batch for e in client_jobs))
        # a graph of a short batch's own size takes no weights, by which batch norm tells padding among what is drawn
        exact = job.net.norms and few and not block.ragged
        exact = exact or job.net.mixes_rows(job.roster.dataset.shape)
        room = Room(size, steps, batch, exact, self._way(job, together))
        block = padded_to(room, block)
        stage = self._stage(training, device_data, room, block, keep=KEPT_STAGES if tuned else 1)
        stage.play(block)
        if last:  # while the GPU is at work
            self._ahead.guess(job, leg, round_inputs)
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

    def _room(self, job: Job, together: int, clients: int) -> int:
        """How many clients a stage for these has room for: a whole cohort, where that fits."""
        return min(self._most(job, together), max(clients, together))

    def _most(self, job: Job, together: int) -> int:
        """The largest block: as asked for, or what the GPU's memory should hold, up to where more gain nothing."""
        if self.largest or self.block:
            return self.largest or self.block or 1
        way = self._way(job, together)
        about = (job.net, job.roster.dataset.shape, job.local.batch, job.dtype, way)
        if self._sized[0] != about:
            self._sized = about, self._should_hold(job, way)
        return min(STACKED if way.stacks else SIDE_BY_SIDE, self._sized[1])

    def _should_hold(self, job: Job, way: Way) -> int:
        """How many clients fit by a rough count of bytes; a count that was too high is halved when it shows."""
        memory = self.memory or _memory(self.device)
        if memory is None:
            return STACKED
        shape = job.roster.dataset.shape
        values = job.net.layer_values(shape)
        if way is Way.STACKED:
            values += job.net.patch_values(shape)
        steps = PASSES * values * job.local.batch * job.dtype.itemsize
        models = MODELS_EACH * nbytes(job.net.initial)
        free = 0.8 * memory - self.dataset.x.nbytes
        if way.stacks or free < STREAMS * (models + steps):
            found = free / (models + steps)
        else:  # side by side, clients take turns on the streams, and in the memory of their steps
            found = (free - STREAMS * steps) / models
        return max(1, int(found))

    def _way(self, job: Job, together: int) -> Way:
        """How clients are trained: dense ones and many with small patches are stacked, and where arithmetic may be
        rounded those with filters of any size; where vmap cannot run the model, or steps are large, side by side."""
        shape = job.roster.dataset.shape
        together = min(together, self.block or STACKED)
        about = (job.net, shape, job.local.batch, job.dtype, together)
        if self._decided[0] != about:
            self._decided = about, self._found_way(job, together)
        return self._decided[1]

    def _found_way(self, job: Job, together: int) -> Way:
        if self.stack is False:
            return Way.SIDE_BY_SIDE
        net, shape, batch = job.net, job.roster.dataset.shape, job.local.batch
        if self._kernels_gain(job, together) and net.runs_with_kernels(shape, half=self.precision == "bf16"):
            trial = net.patched()
            # the kernels' numbers have tests of their own: what is tried here is what vmap makes of the model
            trial.to(self.device)
            if trial.stackable(shape):
                return Way.KERNELS
        held = net.patch_values(shape) * batch * job.dtype.itemsize
        if not self.stack and not (held <= SMALL_PATCHES and (together >= MANY_CLIENTS or not net.convolves)):
            return Way.SIDE_BY_SIDE
        trial = net.patched()
        trial.to(self.device)  # what vmap can run differs between devices
        return Way.STACKED if trial.stackable(shape) else Way.SIDE_BY_SIDE

    def _kernels_gain(self, job: Job, together: int) -> bool:
        """Whether kernels for all clients' filters are faster than cuDNN's client by client."""
        net = job.net
        if job.dtype != torch.float32:  # they add in float32
            return False
        if self.kernels is not None:
            return self.kernels
        if not (net.fits_kernels and self.precision == "bf16"):
            return False
        step = net.multiply_adds(job.roster.dataset.shape) * job.local.batch
        return together > FEW_CLIENTS and step <= LARGE_STEP and has_kernels(self.device)

    def _channels_last(self, job: Job) -> bool:
        """Where filters take one channel each, tensor cores' layout is faster; in fp32, which has none, slower."""
        shape = job.roster.dataset.shape
        return self.precision != "fp32" and job.net.filters_by_channel and job.net.runs_channels_last(shape)

    def _halve(self, size: int) -> None:
        if size == 1:
            raise RunFailed("one client alone does not fit the GPU's memory; use a smaller --batch")
        self.largest = size // 2
        self._stages.clear()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # other clients' steps may still write to what was freed
            torch.cuda.empty_cache()
        warn(
            f"{size} clients at once do not fit the GPU's memory; going on with {self.largest} at a time "
            f"(--block {self.largest} says so from the start)",
            stacklevel=3,
        )


def _memory(device: torch.device) -> int | None:
    """All the memory of a GPU, in bytes: not what is free, since blocks must not depend on what else runs there."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def _together(job: Job, cohort: int) -> int:
    """How many clients take part in a round, at most."""
    return job.method.select.largest_cohort(cohort, job.roster.clients)


def _largest(client_jobs: list[ClientJob]) -> tuple[int, int]:
    """The most steps and the largest batch among these clients."""
    return max(e.plan.steps for e in client_jobs), max(e.plan.widest for e in client_jobs)


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

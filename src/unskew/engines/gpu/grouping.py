"""How clients are trained at once on a GPU: stacked or side by side, and how many in one block."""

from __future__ import annotations

from enum import Enum
from typing import Any

import torch

from unskew.core.engine import Job
from unskew.core.types import nbytes
from unskew.engines.gpu.stream_graphs import STREAMS
from unskew.errors import RunFailed
from unskew.models.kernels.available import has_kernels

SIDE_BY_SIDE, STACKED = 64, 256
"""Most clients in one block, unless asked for otherwise; more are trained block after block."""

SMALL_PATCHES = 8e6
"""Bytes of one client's patches (``models.patches``) up to which it is stacked. Moving more takes longer than starting
its kernels one by one, some fifty of them at one a microsecond. Measured: 1.2 MB (job B) and 7 MB (McMahan's CNN, B=10)
gain, 13 MB (job A) loses."""

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
"""What a client takes of the GPU's memory, roughly. So many models: as sent, as trained, as it ended, its gradient, an
optimiser's two, as returned. And so many numbers for each one that a layer puts out: itself, its gradient, what lies
between."""


class Way(Enum):
    """How clients are trained at once."""

    SIDE_BY_SIDE = "side by side"
    STACKED = "stacked"  # their convolutions as products over patches
    KERNELS = "stacked, with kernels for all"

    @property
    def stacks(self) -> bool:
        return self is not Way.SIDE_BY_SIDE


class Grouping:
    """What one engine decides, with its user's wishes: ``block``, ``stack``, ``memory`` and ``kernels`` of ``FastGPU``.

    ``together`` is how many clients take part in a round. What was found for a model is kept.
    """

    def __init__(
        self,
        device: torch.device,
        precision: str,
        block: int | None,
        stack: bool | None,
        memory: int | None,
        kernels: bool | None,
    ):
        self.device, self.precision, self.block = device, precision, block
        self.stack, self.memory, self.kernels = stack, memory, kernels
        self.sample_bytes = 0  # what all samples take of the GPU's memory
        self.largest: int | None = None  # a block that did not fit halves this
        self._way: tuple[Any, Way] = (None, Way.SIDE_BY_SIDE)
        self._fitting: tuple[Any, int] = (None, 1)

    def way(self, job: Job, together: int) -> Way:
        """How clients are trained. Dense ones, and many with small patches, are stacked; where arithmetic may be
        rounded, those with filters of any size too. If vmap cannot run the model, or steps are large, they run side by
        side."""
        shape = job.roster.dataset.shape
        together = min(together, self.block or STACKED)
        about = (job.net, shape, job.local.batch, job.dtype, together)
        if self._way[0] != about:
            self._way = about, self._find_way(job, together)
        return self._way[1]

    def most(self, job: Job, together: int) -> int:
        """The largest block: as asked for, or what the GPU's memory should hold, up to where more gain nothing."""
        if self.largest or self.block:
            return self.largest or self.block or 1
        way = self.way(job, together)
        about = (job.net, job.roster.dataset.shape, job.local.batch, job.dtype, way)
        if self._fitting[0] != about:
            self._fitting = about, self._count_fitting(job, way)
        return min(STACKED if way.stacks else SIDE_BY_SIDE, self._fitting[1])

    def room(self, job: Job, together: int, clients: int) -> int:
        """How many clients a stage for these has room for: a whole cohort, where that fits."""
        return min(self.most(job, together), max(clients, together))

    def halve(self, size: int) -> int:
        """The largest block from now on, since one of this size did not fit."""
        if size == 1:
            raise RunFailed("one client alone does not fit the GPU's memory; use a smaller --batch")
        self.largest = size // 2
        return self.largest

    def _find_way(self, job: Job, together: int) -> Way:
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

    def _count_fitting(self, job: Job, way: Way) -> int:
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
        free = 0.8 * memory - self.sample_bytes
        if way.stacks or free < STREAMS * (models + steps):
            found = free / (models + steps)
        else:  # side by side, clients take turns on the streams, and in the memory of their steps
            found = (free - STREAMS * steps) / models
        return max(1, int(found))


def _memory(device: torch.device) -> int | None:
    """All the memory of a GPU, in bytes: not what is free, since blocks must not depend on what else runs there."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None

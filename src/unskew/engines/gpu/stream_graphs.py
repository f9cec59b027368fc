"""Clients side by side on a GPU, on several streams: each one's step is captured once and replayed.

Stacked convolutions become grouped ones, which a GPU runs group by group; an ordinary convolution of one client leaves
most of the GPU idle. So where a model convolves, each client keeps its own step (that of ``unskew.core.step``), and the
GPU runs many clients' graphs at once; many clients with small filters are stacked instead. No client waits for another.
Short batches are padded; where a model has batch norm and batches have few sizes, each size gets a graph of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from unskew.core.client import Pool
from unskew.core.step import LocalStep, LocalTraining, StepInputs
from unskew.core.types import Memory, leaves, map_tensors
from unskew.engines.client_stack import ClientStack

STREAMS = 16
"""Clients that run at once; more take turns on these, and share the memory of their steps. A GPU starts kernels at a
rate that some ten clients exhaust."""

EXACT, EXACT_COMPILED = 32, 3
"""Where a model has batch norm, short batches get a graph each while a federation has at most so many sizes of them (a
compiled step costs more). With more sizes they are padded, which makes batch norm much slower."""


def _row(tree: Memory, i: int) -> Memory:
    return map_tensors(lambda v: v[i], tree)


class StreamGraphs:
    """A block that stays where it is, and the steps of each of its rows."""

    def __init__(
        self,
        training: LocalTraining,
        pool: Pool,
        block: ClientStack,
        exact: bool,
        compile: bool,
        capture: bool,
    ):
        rows = range(block.census.shape[0])
        # rows are sorted: the longest client, for whom all wait in the end, goes first
        tracks = [Track(priority=min(0, i - 3)) for i in rows[:STREAMS]] if capture else [None]
        step = LocalStep(training, compile=compile)
        self.clients = [ClientStream(step, pool, block, i, tracks[i % len(tracks)]) for i in rows]
        self.batch = block.index.shape[2]
        self.exact, self.norms = exact, training.net.norms

    def play(self, block: ClientStack) -> None:
        """All steps of a block that was copied into this one; clients take turns only in being launched."""
        lengths = [np.diff(each.plan.cuts).tolist() for each in block.client_jobs]
        clients = self.clients[: len(lengths)]
        for client in clients:
            client.begin()
        with _streams_put_back(block.index.device):
            for s in range(block.steps):
                for client, sizes in zip(clients[: block.active[s]], lengths, strict=False):
                    if self.exact:
                        client.play(sizes[s], padded=False)
                    else:
                        short = block.ragged or sizes[s] < self.batch
                        client.play(self.batch, padded=self.norms and short)
        for client in clients:
            client.end()


@contextlib.contextmanager
def _streams_put_back(device: torch.device) -> Iterator[None]:
    """Once around all steps: torch's own way into a stream and back takes longer than starting a graph."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.current_stream(device)
    try:
        yield
    finally:
        torch.cuda.set_stream(before)


class Track:
    """A stream, and the memory of the steps that are replayed on it, one after the other."""

    def __init__(self, priority: int):
        self.stream = torch.cuda.Stream(priority=priority)  # type: ignore[no-untyped-call]
        self.memory = torch.cuda.graph_pool_handle()


class ClientStream:
    """One row of a block that stays where it is, and the steps captured over it."""

    def __init__(self, step: LocalStep, pool: Pool, block: ClientStack, i: int, track: Track | None):
        self.step, self.pool, self.block, self.i = step, pool, block, i
        self.params = {k: v[i].detach().requires_grad_() for k, v in block.params.items()}
        self.weights = {k: v[i] for k, v in block.params.items()}  # the same memory
        self.buffers = _row(block.buffers, i)
        self.state = step.rule.init(self.weights)
        self.now = torch.zeros(1, dtype=torch.int64, device=block.index.device)
        self.track = track  # None: nothing is captured
        self.graphs: dict[tuple[int, bool], torch.cuda.CUDAGraph] = {}

    def begin(self) -> None:
        """Start a leg: the block's new rows must have arrived before this client reads them."""
        self.now.zero_()
        if self.state:
            torch._foreach_zero_(leaves(self.state))
        if self.track is not None:
            self.track.stream.wait_stream(torch.cuda.current_stream())

    def end(self) -> None:
        """Whoever reads the block from here on waits for this stream."""
        if self.track is not None:
            torch.cuda.current_stream().wait_stream(self.track.stream)

    def play(self, size: int, padded: bool) -> None:
        """The next step of this row's plan, on its first ``size`` samples."""
        if self.track is None:
            self._step(size, padded)
            self.now += 1
            return
        torch.cuda.set_stream(self.track.stream)
        if (size, padded) not in self.graphs:
            self.graphs[size, padded] = self._captured(size, padded, self.track)
        self.graphs[size, padded].replay()

    def _captured(self, size: int, padded: bool, track: Track) -> torch.cuda.CUDAGraph:
        """Record one step; what the trial run changes is put back."""
        moving = [*self.weights.values(), *self.buffers.values(), *leaves(self.state)]
        moving += [self.block.losses[self.i], self.now]
        before = [v.clone() for v in moving]
        self._step(size, padded)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(pool=track.memory)  # not torch.cuda.graph, which empties the cache each time
        try:
            self._step(size, padded)
            self.now += 1
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the capture is broken; what broke it is what counts
                graph.capture_end()
            raise
        graph.capture_end()
        for value, old in zip(moving, before, strict=True):
            value.copy_(old)
        return graph

    def _step(self, size: int, padded: bool) -> None:
        block, i = self.block, self.i

        def now(value: Tensor) -> Tensor:
            return value[:, i].index_select(0, self.now).squeeze(0)

        x, y = self.pool.take(now(block.index)[:size])
        inputs = StepInputs(
            buffers=self.buffers,
            x=x,
            y=y,
            weight=now(block.weight)[:size],
            anchor=_row(block.anchor, i) if block.own_anchor else block.anchor,
            census=block.census[i],
            shared=block.shared,
            mine={part: _row(tree, i) for part, tree in block.mine.items()},
            draws={part: {k: now(v) for k, v in tree.items()} for part, tree in block.draws.items()},
            seed=None if block.seeds is None else now(block.seeds),
        )
        rate, count = now(block.rate), self.now.squeeze(0)
        self.step(self.params, inputs, self.state, rate, count, block.losses[i], padded)

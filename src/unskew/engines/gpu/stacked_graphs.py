"""Stacked clients on a GPU: one step of all that still train, captured for a few numbers of them.

Clients are sorted by number of steps. As they finish, graphs of fewer clients are replayed.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from unskew.core.client import Pool
from unskew.core.step import LocalTraining
from unskew.core.types import leaves
from unskew.engines.client_stack import ClientStack
from unskew.engines.stacked import Stepper

SHARES = (1.0, 0.7, 0.5, 0.3, 0.2, 0.1)
"""The shares of a block for which a graph is captured; a leg drops to the next as its clients finish."""


class StackedGraphs:
    """A block that stays where it is, and its stacked step as a graph for each of some numbers of clients."""

    def __init__(
        self,
        training: LocalTraining,
        pool: Pool,
        block: ClientStack,
        exact: bool,
        compile: bool,
        capture: bool,
    ):
        self.block, self.capture = block, capture
        self.stepper = Stepper(training, pool, block, compile=compile)
        self.now = torch.zeros(1, dtype=torch.int64, device=block.index.device)
        self.sizes = sorted({max(1, round(block.census.shape[0] * share)) for share in SHARES})
        self.graphs: dict[tuple[int, bool], torch.cuda.CUDAGraph] = {}
        self.laid_out = False

    def play(self, block: ClientStack) -> None:
        """All steps of a block that was copied into this one."""
        self.now.zero_()
        if self.stepper.state:
            torch._foreach_zero_(leaves(self.stepper.state))
        one_rate = len({each.lr for each in block.client_jobs}) == 1
        if not self.laid_out and block.steps:
            self._lay_out(one_rate)
        model = [*self.block.params.values(), *self.block.buffers.values()]
        ended = [torch.empty_like(v) for v in model] if block.steps else []
        training = len(block.client_jobs)
        for s in range(block.steps):
            if block.active[s] < training:  # from here on their rows may be trained on padding
                _copy_rows(ended, model, block.active[s], training)
                training = block.active[s]
            self._step(next(n for n in self.sizes if n >= training), one_rate)
        _copy_rows(model, ended, training, len(block.client_jobs))

    def _step(self, clients: int, one_rate: bool) -> None:
        # samples are weighed even where no batch is short: torch's own batch norm asks stacked images for their
        # memory format, and stacked bf16 for statistics in bf16
        if not self.capture:
            self.stepper.step(self.now, clients, padded=True, one_rate=one_rate)
            self.now += 1
            return
        if (clients, one_rate) not in self.graphs:
            self.graphs[clients, one_rate] = self._captured(clients, one_rate)
        self.graphs[clients, one_rate].replay()

    def _moving(self) -> list[Tensor]:
        """What a step changes."""
        trees = [*self.block.params.values(), *self.block.buffers.values(), *leaves(self.stepper.state)]
        return [*trees, self.block.losses, self.now]

    @contextlib.contextmanager
    def _put_back(self) -> Iterator[None]:
        """Steps inside are on trial: what they changed is put back."""
        moving = self._moving()
        before = [v.clone() for v in moving]
        yield
        for value, old in zip(moving, before, strict=True):
            value.copy_(old)

    def _lay_out(self, one_rate: bool) -> None:
        """Let models lie as their gradients come, by a step on trial: one kernel can then move all weights."""
        with self._put_back():
            grads = self.stepper.step(self.now, self.sizes[-1], padded=True, one_rate=one_rate)
        self.stepper.lay_out_like(grads)
        self.laid_out = True

    def _captured(self, clients: int, one_rate: bool) -> torch.cuda.CUDAGraph:
        """Record one step."""
        with self._put_back():
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside), warnings.catch_warnings():
                # gradients inside the loss (FedMix) go through patches client by client, which torch says at length
                warnings.filterwarnings("ignore", "There is a performance drop")
                for _ in range(3):
                    self.stepper.step(self.now, clients, padded=True, one_rate=one_rate)
            torch.cuda.current_stream().wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            # what all wait for goes before what runs beside it
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(priority=-2)):  # type: ignore[no-untyped-call]
                self.stepper.step(self.now, clients, padded=True, one_rate=one_rate)
                self.now += 1
        return graph


def _copy_rows(here: list[Tensor], there: list[Tensor], since: int, until: int) -> None:
    """Copy some clients' rows of all tensors."""
    if since < until and here:
        torch._foreach_copy_([v[since:until] for v in here], [v[since:until] for v in there])

"""Where clients are run: the samples on one device, and the client function over them.

The loop engine has one such place in its own process. The fast engine has one in every worker, or one on a GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.arrays import Array
from unskew.core.client import ClientJob, ClientResult, Pool, train
from unskew.core.held import Made
from unskew.core.net import Net
from unskew.core.step import LocalStep, LocalTraining
from unskew.core.task import Answers
from unskew.core.types import Tree
from unskew.data.dataset import Dataset
from unskew.data.mapped import is_mapped
from unskew.engines.recorded import Recording, play_recorded
from unskew.engines.recorded_alone import Known, RecordedStep
from unskew.engines.stacked import train_stacked


def tensor_of(array: Array) -> Tensor:
    """An array as a tensor over the same memory; it is only ever read, so read-only memory is no danger."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.as_tensor(array)


@dataclass
class DeviceData:
    """Runs jobs and judges models over one pool of samples."""

    dataset: Dataset
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    channels_last: bool = False
    stacked: bool = False
    record: bool = False  # whether steps are recorded and replayed

    def __post_init__(self) -> None:
        data = self.dataset
        scale = data.scale_like(torch.empty(0, dtype=self.dtype, device=self.device))

        def samples(x: Array) -> Tensor:
            there = tensor_of(x).to(self.device)
            # laying it out would read it all
            on_disk = self.device.type == "cpu" and is_mapped(x) is not None
            return there if on_disk else self._laid_out(there)

        self.recordings: dict[Any, Recording] = {}
        self.recordings_alone: Known = {}
        self.pool = Pool(samples(data.x), tensor_of(data.y).to(self.device), *scale)
        self.test = Pool(samples(data.x_test), tensor_of(data.y_test).to(self.device), *scale)

    def train(
        self,
        training: LocalTraining,
        client_jobs: Sequence[ClientJob],
        sizes: frozenset[int] = frozenset(),
    ) -> list[ClientResult]:
        """Train these clients; steps of one alone are recorded where batches have one of these ``sizes``."""
        if self.stacked:
            play = partial(play_recorded, known=self.recordings) if self.record else None
            pool, there = self.with_made(client_jobs)
            return train_stacked(training, pool, there, self.device, play)
        alone = (self.with_made([each]) for each in client_jobs)
        step = partial(RecordedStep, known=self.recordings_alone, sizes=sizes) if self.record else LocalStep
        return [train(training, pool, one, step(training)) for pool, (one,) in alone]

    def with_made(self, client_jobs: Sequence[ClientJob]) -> tuple[Pool, Sequence[ClientJob]]:
        """The pool that these jobs' places are in: a small one of its own where clients made samples themselves."""
        if all(each.made is None for each in client_jobs):
            return self.pool, client_jobs
        pool, held = self._beside([(each.held, each.made) for each in client_jobs])
        return pool, [replace(each, held=at, made=None) for each, at in zip(client_jobs, held, strict=True)]

    def _beside(self, lists: Sequence[tuple[Tensor, Made | None]]) -> tuple[Pool, list[Tensor]]:
        """A small pool of these samples (those that clients made, and those that they hold), and their places in it."""
        rows, labels, found, at, end = [], [], [], 0, len(self.dataset)
        for held, made in lists:
            own = held < end
            index = held[own].to(self.device)
            parts = [(self.pool.x[index], self.pool.y[index])]
            if made is not None:
                parts.append((tensor_of(made[0]).to(self.device), tensor_of(made[1]).to(self.device)))
            rows += [x for x, _ in parts]
            labels += [y for _, y in parts]
            found.append(at + torch.where(own, own.cumsum(0) - 1, held - end + len(index)))
            at += sum(len(y) for _, y in parts)
        pool = Pool(self._laid_out(torch.cat(rows)), torch.cat(labels), self.pool.mean, self.pool.std)
        return pool, found

    def make_room(self, client_jobs: Sequence[ClientJob]) -> tuple[list[ClientJob], bool]:
        """The jobs with what clients made placed behind the pool's end; and whether the pool had to move for it.

        It is for a device that has its own copy of the samples. Steps captured over the pool are replayed in later
        rounds, so the pool should stay where it is.
        """
        behind = [0 if each.made is None else len(each.made[1]) for each in client_jobs]
        need, end, moved = sum(behind), len(self.dataset), False
        if end + need > len(self.pool.y):
            room = 1 << (need - 1).bit_length()
            self.pool.x = self._laid_out(
                torch.cat([self.pool.x[:end], self.pool.x.new_zeros(room, *self.pool.x.shape[1:])])
            )
            self.pool.y = torch.cat([self.pool.y[:end], self.pool.y.new_zeros(room)])
            moved = True
        there, at = [], end
        for each, count in zip(client_jobs, behind, strict=True):
            if each.made is None:
                there.append(each)
                continue
            self.pool.x[at : at + count] = tensor_of(each.made[0]).to(self.device)
            self.pool.y[at : at + count] = tensor_of(each.made[1]).to(self.device)
            there.append(
                replace(each, held=torch.where(each.held < end, each.held, each.held - end + at), made=None)
            )
            at += count
        return there, moved

    def _plain(self, values: Tensor) -> Tensor:
        """Values for numpy, which knows no half precision."""
        return (values.to(self.dtype) if values.is_floating_point() else values).cpu()

    def _laid_out(self, x: Tensor) -> Tensor:
        last = self.channels_last and x.dim() == 4
        return x.contiguous(memory_format=torch.channels_last) if last else x

    def judge(
        self,
        net: Net,
        model: Tree,
        places: Array | None,
        test: bool = False,
        made: Made | None = None,
        details: bool = False,
    ) -> Answers:
        """What a model says of samples of the pool or of the test set; ``places=None`` is the whole test set.

        Places from the pool's length on are of samples that clients ``made``. Of the server's own samples (the test set
        among them) ``details`` are told too.
        """
        pool = self.test if test or places is None else self.pool
        at = torch.from_numpy(np.arange(len(pool.y)) if places is None else np.asarray(places, np.int64))
        if made is not None:
            pool, (at,) = self._beside([(at, made)])
        at = at.to(self.device)
        task, details = net.task, details or pool is self.test
        found: list[dict[str, Tensor]] = []
        blocks = net.blocks(len(at))
        order = np.concatenate(blocks)
        asked = torch.split(at[torch.from_numpy(order).to(self.device)], [len(block) for block in blocks])
        with torch.inference_mode():
            for some in asked:
                x, y = pool.take(some)
                # a client may hold nothing, and not every model takes a batch of nothing
                outputs = net.judge(model, x) if len(some) else x.new_zeros(0, self.dataset.classes)
                found.append(task.answers(outputs, y) | (task.details(outputs) if details else {}))
        back = np.argsort(order)
        # fetched at the end: whoever looks at an answer waits for a GPU
        return {name: self._plain(torch.cat([f[name] for f in found])).numpy()[back] for name in found[0]}

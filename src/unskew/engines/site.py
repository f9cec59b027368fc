"""Where clients are run: the samples on one device, and the client function over them.

The loop engine has one site in its own process; the fast engine has one in every worker, or one on a GPU.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.client import Errand, Pool, Return, Task, train
from unskew.data.dataset import Array, Dataset
from unskew.engines.recorded import Recording, play_recorded
from unskew.engines.stacked import train_stacked
from unskew.net import Net
from unskew.types import Tree


def tensor_of(array: Array) -> Tensor:
    """An array as a tensor over the same memory; it is only ever read, so read-only memory is no danger."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.as_tensor(array)


@dataclass
class Site:
    """Runs errands and judges models over one pool of samples."""

    dataset: Dataset
    dtype: torch.dtype = torch.float32
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    channels_last: bool = False
    stacked: bool = False
    record: bool = False  # whether stacked steps are recorded and replayed

    def __post_init__(self) -> None:
        data = self.dataset
        scale = data.scale_like(torch.empty(0, dtype=self.dtype, device=self.device))

        def samples(x: Array) -> Tensor:
            held = tensor_of(x).to(self.device)
            last = self.channels_last and held.dim() == 4
            return held.contiguous(memory_format=torch.channels_last) if last else held

        self.recordings: dict[Any, Recording] = {}
        self.pool = Pool(samples(data.x), tensor_of(data.y).to(self.device), *scale)
        self.test = Pool(samples(data.x_test), tensor_of(data.y_test).to(self.device), *scale)

    def refill(self, dataset: Dataset) -> bool:
        """Put another data set of the same shape in the place of this one; False where it does not fit."""
        old, new = self.dataset, dataset
        same = all(getattr(new, k) is getattr(old, k) for k in ("x_test", "y_test", "mean", "std"))
        if not same or new.x.shape != old.x.shape or new.x.dtype != old.x.dtype:
            return False
        self.pool.x.copy_(tensor_of(new.x))
        self.pool.y.copy_(tensor_of(new.y))
        self.dataset = dataset
        return True

    def train(self, task: Task, errands: Sequence[Errand]) -> list[Return]:
        if self.stacked:
            play = partial(play_recorded, known=self.recordings) if self.record else None
            return train_stacked(task, self.pool, errands, self.device, play)
        return [train(task, self.pool, e) for e in errands]

    def judge(self, net: Net, model: Tree, places: Array | None, test: bool = False) -> tuple[Tensor, Tensor]:
        """Predicted class and loss of a model for samples of the pool or the test set; None is all the latter."""
        pool = self.test if test or places is None else self.pool
        at = torch.from_numpy(np.arange(len(pool.y)) if places is None else np.asarray(places)).to(
            self.device
        )
        guesses, losses = torch.zeros(len(at), dtype=torch.int64), torch.zeros(len(at), dtype=self.dtype)
        with torch.inference_mode():
            for block in net.blocks(len(at)) if len(at) else ():
                x, y = pool.take(at[torch.from_numpy(block).to(self.device)])
                logits = net.judge(model, x)
                guesses[block] = logits.argmax(1).cpu()
                losses[block] = torch.nn.functional.cross_entropy(logits, y, reduction="none").cpu()
        return guesses, losses

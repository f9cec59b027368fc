"""Kernels compiled several at once, before steps are captured: a model has some seventy, and one after the other they
take half a minute on a machine that has none yet."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from torch import Tensor

from unskew.models.kernels.loaded import launched_by

MANY = (
    "convolution",
    "filter_gradient",
    "moments",
    "normalise",
    "norm_sums",
    "norm_gradient",
    "pool",
    "pool_gradient",
)
"""Kernels that are compiled for each layer and size. They put out images and gradients, so that a step goes on with
whatever lies in memory; the rest, labels among it, runs."""


@contextlib.contextmanager
def rehearsed(device: torch.device) -> Iterator[None]:
    """Inside, a step compiles its kernels and runs none of them; at the end all are compiled."""
    threads = min(16, os.cpu_count() or 1)
    start = (lambda: torch.cuda.set_device(device)) if device.type == "cuda" else None
    with ThreadPoolExecutor(threads, initializer=start) as executor:
        begun: dict[Any, Future[Any]] = {}
        with launched_by(lambda kernels: _Rehearsal(kernels, executor, begun)):
            yield
        wait(begun.values())  # what cannot be compiled says so when it is launched


class _Rehearsal:
    """In the kernels' place: its other names are theirs."""

    def __init__(self, kernels: Any, executor: Executor, begun: dict[Any, Future[Any]]):
        self._kernels, self._executor, self._begun = kernels, executor, begun

    def __getattr__(self, name: str) -> Any:
        kernel = getattr(self._kernels, name)
        return _Rehearsed(kernel, name, self._executor, self._begun) if name in MANY else kernel


class _Rehearsed:
    """In a kernel's place: launched, it is compiled, once for whatever Triton would take for the same."""

    def __init__(self, kernel: Any, name: str, executor: Executor, begun: dict[Any, Future[Any]]):
        self.kernel, self.name, self.executor, self.begun = kernel, name, executor, begun

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*given: Any, **options: Any) -> None:
            constants = [p.is_constexpr for p in getattr(self.kernel, "params", ())] or [True] * len(given)
            like = tuple(v if c else _kind(v) for v, c in zip(given, constants, strict=False))
            key = self.name, like, *options.items()
            if key not in self.begun:
                types = [_type_alone(v) for v in given]  # tensors would stay in memory until it is compiled
                self.begun[key] = self.executor.submit(self.kernel.warmup, *types, grid=grid, **options)

        return launch


def _kind(value: Any) -> Any:
    """What Triton looks at: types, and of numbers and places in memory what tells how they are read."""
    if isinstance(value, Tensor):
        return value.dtype, _lies_evenly(value)
    return (value == 1, value % 16 == 0) if isinstance(value, int) else type(value)


def _type_alone(value: Any) -> Any:
    """In a tensor's place its type, which Triton takes for a tensor that lies evenly in memory."""
    return value.dtype if isinstance(value, Tensor) and _lies_evenly(value) else value


def _lies_evenly(value: Tensor) -> bool:
    return value.data_ptr() % 16 == 0

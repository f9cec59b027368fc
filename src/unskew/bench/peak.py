"""What the machine could do at best: the rate of a large matrix product, in the run's own arithmetic."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import torch

from unskew.machine.cores import cores

TRAINING = 3
"""Passes of a training step counted in forward passes: forward, gradient by input, gradient by weight."""

SIDE = {"cpu": 2048, "cuda": 8192}
"""Rows of the square matrices: large enough for the rate to have levelled off, small enough for a tenth of a second."""


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """This many torch threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def multiply_adds_a_second(device: torch.device, precision: str, side: int | None = None) -> float:
    """The best of three matrix products on all cores, or on the GPU."""
    dtype = {"fp64": torch.float64, "bf16": torch.bfloat16}.get(precision, torch.float32)
    side = side or SIDE[device.type]
    with threads(cores()):
        one = torch.ones(side, side, dtype=dtype, device=device)
        out = torch.empty_like(one)
        torch.mm(one, one, out=out)
        best = 0.0
        for _ in range(3):
            synchronize(device)
            began = time.perf_counter()
            torch.mm(one, one, out=out)
            synchronize(device)
            best = max(best, side**3 / (time.perf_counter() - began))
    return best


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

"""What the machine could do at best: the rate of a large matrix product or convolution, in the run's own arithmetic."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

import torch

from unskew.machine.cores import cores

TRAINING = 3
"""Passes of a training step counted in forward passes: forward, gradient by input, gradient by weight."""

SIDE = {"cpu": 2048, "cuda": 8192}
"""Rows of the square matrices: large enough for the rate to have levelled off, small enough for a tenth of a second."""


IMAGES, CHANNELS = 8, 256
"""Of the convolution that a CPU is measured by: some twenty milliseconds."""


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
    """The best of three matrix products on all cores, or on the GPU; on a CPU also of three convolutions.

    They are two libraries there, and either may be the faster one: on some AMD processors MKL computes with half of
    what the processor has, and oneDNN with all of it.
    """
    dtype = {"fp64": torch.float64, "bf16": torch.bfloat16}.get(precision, torch.float32)
    side = side or SIDE[device.type]
    one = torch.ones(side, side, dtype=dtype, device=device)
    out = torch.empty_like(one)
    ways = [(side**3, lambda: torch.mm(one, one, out=out))]
    if device.type == "cpu" and dtype == torch.float32:
        images, filters = (
            torch.ones(shape).contiguous(memory_format=torch.channels_last)
            for shape in ((IMAGES, CHANNELS, 32, 32), (CHANNELS, CHANNELS, 3, 3))
        )
        work = images.numel() * filters[0].numel()
        ways.append((work, lambda: torch.conv2d(images, filters, padding=1)))
    with threads(cores()), torch.no_grad():
        return max(_rate(device, work, way) for work, way in ways)


def _rate(device: torch.device, work: int, way: Callable[[], object]) -> float:
    """The best of three after one that is not counted."""
    best = 0.0
    for counted in range(4):
        synchronize(device)
        began = time.perf_counter()
        way()
        synchronize(device)
        if counted:
            best = max(best, work / (time.perf_counter() - began))
    return best


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)

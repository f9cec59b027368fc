"""How a step of stacked clients begins: what their plan says of it, and the samples that it names."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unskew.models.kernels.layout import power_of_two, room_for_images
from unskew.models.kernels.loaded import step_programs


class PlannedSteps(NamedTuple):
    """Every step of every client: [steps, clients, ...]."""

    places: Tensor  # of samples in the pool
    weight: Tensor  # of samples, 0 on padding
    rate: Tensor
    seeds: Tensor | None  # of masks, where any are drawn


class PoolTensors(NamedTuple):
    """A pool of samples, their labels, and the mean and the deviation that each channel is normalised by."""

    x: Tensor
    y: Tensor
    mean: Tensor
    std: Tensor


class Begun(NamedTuple):
    """What one step of some clients begins with: [clients, ...]."""

    x: Tensor
    y: Tensor
    weight: Tensor
    rate: Tensor
    seeds: Tensor | None


TILE, MOST_CHANNELS = 512, 64
"""Numbers that one program normalises, and of them the most of one place of an image."""


def knows(pool: PoolTensors, planned: PlannedSteps) -> bool:
    """Whether the kernel reads a pool and a plan of this form: images with one label each, in single precision."""
    if pool.x.dim() != 4 or pool.x.dtype not in (torch.uint8, torch.float32) or pool.y.dim() != 1:
        return False
    channels = pool.x.shape[1]
    singles = [pool.mean, pool.std, planned.weight, planned.rate]
    by_channel = all(t.shape in ((channels, 1, 1), (1, 1, 1)) for t in (pool.mean, pool.std))
    return channels <= MOST_CHANNELS and by_channel and {t.dtype for t in singles} == {torch.float32}


def begin(
    now: Tensor, planned: PlannedSteps, pool: PoolTensors, clients: int, kind: torch.dtype, side_by_side: bool
) -> Begun:
    """The step ``now`` [1] of the first clients: images of this type, as they lie in the pool or with their channels
    ``side_by_side``."""
    samples, (channels, height, width) = planned.places.shape[2], pool.x.shape[1:]
    seeds = planned.seeds
    room = torch.empty(clients, samples, 0, dtype=kind, device=pool.x.device)
    if side_by_side or not pool.x.is_contiguous():
        x = room_for_images(room, channels, (height, width))
    else:
        x = room.new_empty(clients, samples, channels, height, width)
    begun = Begun(
        x=x,
        y=pool.y.new_empty(clients, samples),
        weight=planned.weight.new_empty(clients, samples),
        rate=planned.rate.new_empty(clients),
        seeds=None if seeds is None else seeds.new_empty(clients),
    )
    wide = power_of_two(channels)
    tall = min(TILE // wide, power_of_two(height * width))
    step_programs().begin[clients * samples, -(-height * width // tall)](
        now, planned.places, planned.weight, planned.rate, now if seeds is None else seeds, *pool,
        *begun[:4], now if seeds is None else begun.seeds,
        samples, channels, width, height * width,
        *planned.places.stride(), *planned.weight.stride(), *planned.rate.stride(),
        *((0, 0) if seeds is None else seeds.stride()),
        *pool.x.stride(), pool.y.stride(0), _by_channel(pool.mean), _by_channel(pool.std), *x.stride()[1:],
        seeds is not None, tall, wide,
    )  # fmt: skip
    return begun


def _by_channel(value: Tensor) -> int:
    """How far apart the numbers of two channels are, [channels, 1, 1]; one number may be that of all."""
    return value.stride(0) if value.numel() > 1 else 0

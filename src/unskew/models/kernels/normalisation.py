"""Batch norm of all clients at once, each by its own samples."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from unskew.models.kernels.layout import by_place, evenly, tile
from unskew.models.kernels.loaded import programs

SMALL, LARGE = 64, 256
"""Places in the smallest and in the largest tile of batch norm."""

MOST_TILES = 128
"""Tiles of batch norm whose moments one program reads."""


class PlaceTiling(NamedTuple):
    """Which tiles are the fastest (``python -m benchmarks.tiles``): small ones while they make few programs."""

    few: int  # programs
    places: int  # in a tile where there are more


FORWARD, BACKWARD = PlaceTiling(few=200, places=LARGE), PlaceTiling(few=400, places=128)


class BatchNormalisation(Function):
    """Batch norm of [clients, samples, channels, ...]; running statistics move in place."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, scale: Any, shift: Any, mean: Any, var: Any, how: Any
    ) -> Tensor:
        eps, momentum, relu = how
        scale, shift = (None if t is None else _in_a_row(t) for t in (scale, shift))
        at = _Places.of(x, weight, FORWARD)
        found = x.new_empty(at.clients, at.tiles, 3, at.channels, dtype=torch.float32)
        kept = x.new_empty(at.clients, 3, at.channels, dtype=torch.float32)
        y = at.like(x)
        programs().moments[at.grid](at.x, weight, found, *at.sizes, *at.strides, at.tile, at.wide)
        affine, runs = scale is not None, mean is not None
        programs().normalise[at.grid](
            at.x, weight, scale if affine else x, shift if affine else x, mean if runs else x, var if runs else x,
            found, y, kept, *at.sizes, *at.strides, *(t.stride(0) if t is not None else 0 for t in (scale, shift)),
            *(t.stride(0) if t is not None else 0 for t in (mean, var)), eps, momentum,
            runs, relu, affine, at.tile, at.wide, at.room,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, kept, *((scale, shift) if affine else ()))
        ctx.relu, ctx.affine = relu, affine
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, weight, kept, *rest = ctx.saved_tensors
        scale, shift = rest if ctx.affine else (x, x)
        at = _Places.of(x, weight, BACKWARD)
        dy = _Places.of(slopes[0], weight, BACKWARD)
        found = x.new_empty(at.clients, at.tiles, 2, at.channels, dtype=torch.float32)
        dx = at.like(x)
        dscale = x.new_empty(at.clients, at.channels, dtype=torch.float32)
        dshift = torch.empty_like(dscale)
        affine = (scale.stride(0), shift.stride(0)) if ctx.affine else (0, 0)
        strides = (*at.sizes, *at.strides, *affine, *dy.strides[:3])
        how = (ctx.relu, ctx.affine, at.tile, at.wide)
        programs().norm_sums[at.grid](at.x, weight, scale, shift, kept, dy.x, found, *strides, *how)
        programs().norm_gradient[at.grid](
            at.x, weight, scale, shift, kept, dy.x, found, dx, dscale, dshift, *strides, *how, at.room
        )
        if not ctx.affine:
            return dx, None, None, None, None, None, None
        return dx, None, dscale.to(scale.dtype), dshift.to(shift.dtype), None, None, None


def _in_a_row(learned: Tensor) -> Tensor:
    """[clients, channels], channels side by side."""
    return learned if learned.stride(1) == 1 else learned.contiguous()


def tiles_of(x: Tensor) -> int:
    """How many tiles the places of one client's batch fill at least."""
    return -(-x.numel() // x.shape[1] // LARGE)


def _tile(places: int, blocks: int, tiling: PlaceTiling) -> int:
    """How many places a tile has; ``blocks``: programs for the same places, of other clients and channels."""
    small = -(-places // SMALL)
    if small <= MOST_TILES and small * blocks <= tiling.few:
        return SMALL
    return tiling.places if -(-places // tiling.places) <= MOST_TILES else LARGE


class _Places(NamedTuple):
    """Images as places with channels: what the kernels of batch norm are told."""

    x: Tensor
    clients: int
    channels: int
    tile: int  # places in one
    tiles: int
    wide: int
    sizes: tuple[int, int, int, int]  # places of a client, and of one sample; channels; tiles
    strides: tuple[int, ...]  # of x by client, place and channel; of weights by client and sample

    @classmethod
    def of(cls, x: Tensor, weight: Tensor, tiling: PlaceTiling) -> _Places:
        clients, samples, channels, *size = x.shape
        if len(size) == 2:
            x = evenly(x)
            step = by_place(x)
        elif size:
            x = x.movedim(2, -1).contiguous().movedim(-1, 2)
            step = channels
        else:
            x = x.contiguous()
            step = x.stride(1)
        places, wide = samples * math.prod(size), tile(channels, 32)
        length = _tile(places, -(-channels // wide) * clients, tiling)
        tiles = -(-places // length)
        strides = (x.stride(0), step, x.stride(2), *weight.stride())
        sizes = (places, math.prod(size), channels, tiles)
        return cls(x, clients, channels, length, tiles, wide, sizes, strides)

    @property
    def grid(self) -> tuple[int, int, int]:
        return self.tiles, -(-self.channels // self.wide), self.clients

    @property
    def room(self) -> int:
        """For how many tiles' moments a program has room: few sizes, so that few kernels are compiled."""
        return 8 if self.tiles <= 8 else 32 if self.tiles <= 32 else MOST_TILES

    def like(self, x: Tensor) -> Tensor:
        """Room for as many, channels innermost; not a view (see ``room_for_images``)."""
        _, samples, channels, *size = x.shape
        by_size = [channels * math.prod(size[at + 1 :]) for at in range(len(size))]
        by_sample = channels * math.prod(size)
        return x.new_empty_strided(x.shape, (samples * by_sample, by_sample, 1, *by_size))

"""Batch norm of all clients at once, each by its own samples."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from unskew.models.kernels.layout import by_place, evenly, tile
from unskew.models.kernels.loaded import programs

TILE = 256
"""Places in a tile of batch norm."""

MOST_TILES = 128
"""Tiles of batch norm whose moments one program reads."""


class BatchNormalisation(Function):
    """Batch norm of [clients, samples, channels, ...]; running statistics move in place."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, scale: Any, shift: Any, mean: Any, var: Any, how: Any
    ) -> Tensor:
        eps, momentum, relu = how
        scale, shift = (None if t is None else _in_a_row(t) for t in (scale, shift))
        at = _Places.of(x, weight)
        found = x.new_empty(at.clients, at.tiles, 3, at.channels, dtype=torch.float32)
        kept = x.new_empty(at.clients, 3, at.channels, dtype=torch.float32)
        y = at.like(x)
        programs().moments[at.grid](at.x, weight, found, *at.sizes, *at.strides, TILE, at.wide)
        affine, runs = scale is not None, mean is not None
        programs().normalise[at.grid](
            at.x, weight, scale if affine else x, shift if affine else x, mean if runs else x, var if runs else x,
            found, y, kept, *at.sizes, *at.strides, *(t.stride(0) if t is not None else 0 for t in (scale, shift)),
            *(t.stride(0) if t is not None else 0 for t in (mean, var)), eps, momentum,
            runs, relu, affine, TILE, at.wide, at.room,
        )  # fmt: skip
        ctx.save_for_backward(x, weight, kept, *((scale, shift) if affine else ()))
        ctx.relu, ctx.affine = relu, affine
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        x, weight, kept, *rest = ctx.saved_tensors
        scale, shift = rest if ctx.affine else (x, x)
        at = _Places.of(x, weight)
        dy = _Places.of(slopes[0], weight)
        found = x.new_empty(at.clients, at.tiles, 2, at.channels, dtype=torch.float32)
        dx = at.like(x)
        dscale = x.new_empty(at.clients, at.channels, dtype=torch.float32)
        dshift = torch.empty_like(dscale)
        affine = (scale.stride(0), shift.stride(0)) if ctx.affine else (0, 0)
        strides = (*at.sizes, *at.strides, *affine, *dy.strides[:3])
        how = (ctx.relu, ctx.affine, TILE, at.wide)
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
    """How many tiles the places of one client's batch fill."""
    return -(-x.numel() // x.shape[1] // TILE)


class _Places(NamedTuple):
    """Images as places with channels: what the kernels of batch norm are told."""

    x: Tensor
    clients: int
    channels: int
    tiles: int
    wide: int
    sizes: tuple[int, int, int, int]  # places of a client, and of one sample; channels; tiles
    strides: tuple[int, ...]  # of x by client, place and channel; of weights by client and sample

    @classmethod
    def of(cls, x: Tensor, weight: Tensor) -> _Places:
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
        places, tiles = samples * math.prod(size), tiles_of(x[0])
        strides = (x.stride(0), step, x.stride(2), *weight.stride())
        sizes = (places, math.prod(size), channels, tiles)
        return cls(x, clients, channels, tiles, tile(channels, 32), sizes, strides)

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

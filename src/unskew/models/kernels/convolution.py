"""Convolutions of all clients at once, each with its own filters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from unskew.models.kernels.beside import aside
from unskew.models.kernels.layout import by_place, evenly, room_for_images, tile
from unskew.models.kernels.loaded import programs
from unskew.models.kernels.rounding import rounded


class Walk(NamedTuple):
    """How filters walk over an image."""

    stride: tuple[int, int]
    padding: tuple[int, int]


class Convolution(Function):
    """[clients, samples, channels, rows, columns] through [clients, out, channels, rows, columns]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, walk: Walk) -> Tensor:
        filters = rounded(weight, x.dtype)
        ctx.save_for_backward(x, filters)
        ctx.walk, ctx.biased, ctx.kind = walk, bias is not None, weight.dtype
        size = [
            (n + 2 * pad - side) // step + 1
            for n, pad, side, step in zip(
                x.shape[3:], walk.padding, weight.shape[3:], walk.stride, strict=True
            )
        ]
        y = room_for_images(x, weight.shape[1], size)
        _convolve(x, filters, bias, y, walk, back=False)
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (dy,) = slopes
        x, filters = ctx.saved_tensors
        dx = dw = db = None
        dy = evenly(dy)
        if ctx.needs_input_grad[0]:
            dx = room_for_images(x, x.shape[2], x.shape[3:])
            _convolve(dy, filters.transpose(1, 2), None, dx, ctx.walk, back=True)
        if ctx.needs_input_grad[1] or ctx.needs_input_grad[2]:
            dw, db = _filter_gradient(x, dy, filters, ctx.walk, ctx.biased, ctx.kind)
        return dx, dw, db, None


def _precision(x: Tensor) -> str:
    """How numbers are multiplied: tensor cores round float32 where torch's own convolutions may."""
    return "tf32" if x.dtype != torch.float32 or torch.backends.cudnn.allow_tf32 else "ieee"


def _part(channels: int, inner: int, most: int) -> int:
    """The length of a tile of filters: so that it lies under one place of the filter, where channels allow it."""
    whole = channels & -channels  # the largest power of two in it
    return min(most, whole) if whole >= 16 else tile(inner, 32)


class Tiling(NamedTuple):
    """How a convolution is cut where that gives enough programs to keep a GPU busy."""

    enough: int
    places: int
    filters: int
    depth: int
    stages: int  # tiles on their way at once
    warps: int


TILINGS = (Tiling(300, 128, 64, 64, 3, 4), Tiling(48, 64, 64, 128, 3, 4), Tiling(0, 16, 32, 128, 4, 2))
"""The first that gives enough is taken. These, and the tiles below, are within a twentieth of the fastest of each of
ResNet-9's layers with one, three and ten clients on an H200 (``python -m benchmarks.tiles``)."""


def _convolve(x: Tensor, weight: Tensor, bias: Tensor | None, y: Tensor, walk: Walk, back: bool) -> None:
    """A convolution's outputs into ``y``, or, going ``back``, the gradient of its input."""
    (clients, samples, channels, height, width), (_, out, _, rows, columns) = x.shape, weight.shape
    places = samples * y.shape[3] * y.shape[4]
    for cut in TILINGS:
        wide = tile(out, cut.filters)
        grid = (-(-places // cut.places), -(-out // wide), clients)
        if math.prod(grid) >= cut.enough:
            break
    deep = _part(channels, channels * rows * columns, cut.depth if x.element_size() == 2 else cut.depth // 2)
    programs().convolution[grid](
        x, weight, x if bias is None else bias, y,
        places, height, width, y.shape[3], y.shape[4], out,
        *x.stride(), *weight.stride(),
        *((0, 0) if bias is None else bias.stride()),
        y.stride(0), y.stride(4), y.stride(2),
        channels, rows, columns, *walk.stride, *walk.padding,
        back, bias is not None, _precision(x), cut.places, wide, deep,
        num_warps=cut.warps, num_stages=cut.stages,
    )  # fmt: skip


CHUNKS = ((60, 1024), (20, 512), (0, 256))
"""From how many tiles on, of all clients, how many places' gradients one program adds up: of more places several
programs each do a part."""

MOST_PROGRAMS = 2**16 - 1
"""Along its last axis a GPU starts no more: parts of all clients."""


def _filter_gradient(
    x: Tensor, dy: Tensor, weight: Tensor, walk: Walk, biased: bool, kind: torch.dtype
) -> tuple[Tensor, Tensor | None]:
    """Of all clients, the gradient by the filters, and by the bias."""
    (clients, samples, channels, height, width), (_, out, _, rows, columns) = x.shape, weight.shape
    places, inner = samples * dy.shape[3] * dy.shape[4], channels * rows * columns
    wide, tall = tile(out, 128), _part(channels, inner, 64)
    tiles = -(-out // wide) * -(-inner // tall) * clients
    chunk = next(most for enough, most in CHUNKS if tiles >= enough)
    chunk *= max(1, -(-places // (chunk * max(1, MOST_PROGRAMS // clients))))
    parts = -(-places // chunk)
    found = x.new_empty(clients, parts, out, inner, dtype=torch.float32)
    summed = x.new_empty(clients, parts, out, dtype=torch.float32) if biased else found
    deep = 64 // (x.element_size() // 2)
    launch = (
        x, dy, found, summed,
        places, height, width, dy.shape[3], dy.shape[4], out, chunk, parts,
        *x.stride(),
        dy.stride(0), by_place(dy), dy.stride(2),
        channels, rows, columns, *walk.stride, *walk.padding,
        biased, _precision(x), tall, wide, deep,
    )  # fmt: skip
    grid = (-(-out // wide), -(-inner // tall), clients * parts)
    with aside(x, dy, found, summed):
        programs().filter_gradient[grid](*launch, num_warps=4, num_stages=3)
        dw = (found[:, 0] if parts == 1 else found.sum(1)).view(clients, out, rows, columns, channels)
        db = (summed[:, 0] if parts == 1 else summed.sum(1)) if biased else None
        return dw.permute(0, 1, 4, 2, 3).to(kind), None if db is None else db.to(kind)

"""Max pooling of all clients at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unskew.models.kernels.layout import channels_inside, room_for_images, steps_but_channels
from unskew.models.kernels.loaded import programs


class MaxPooling(Function):
    """Max pooling of [clients, samples, channels, rows, columns]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: tuple[int, int]) -> Tensor:
        x = _inside(x)
        size = [side // step for side, step in zip(x.shape[3:], window, strict=True)]
        y = room_for_images(x, x.shape[2], size)
        which = torch.empty_like(y, dtype=torch.uint8)
        ctx.save_for_backward(which)
        ctx.window, ctx.shape = window, x.shape
        programs().pool[_pool_grid(y)](
            x, y, which, y.shape[1] * size[0] * size[1], *size, x.shape[2], *steps_but_channels(x), *window, *POOLED,
        )  # fmt: skip
        return y

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        dy = _inside(slopes[0])
        (which,) = ctx.saved_tensors
        size = ctx.shape[3:]
        dx = room_for_images(dy, ctx.shape[2], size)
        if any(side % step for side, step in zip(size, ctx.window, strict=True)):
            dx.zero_()  # some places are under no window
        programs().pool_gradient[_pool_grid(dy)](
            dy, which, dx, dy.shape[1] * dy.shape[3] * dy.shape[4], *dy.shape[3:], dy.shape[2], *steps_but_channels(dy),
            *steps_but_channels(dx), *ctx.window, *POOLED,
        )  # fmt: skip
        return dx, None


POOLED = (32, 32)
"""Windows and channels that one program pools."""


def _pool_grid(y: Tensor) -> tuple[int, int, int]:
    clients, samples, channels, height, width = y.shape
    return -(-samples * height * width // POOLED[0]), -(-channels // POOLED[1]), clients


def _inside(x: Tensor) -> Tensor:
    return x if x.stride(2) == 1 else channels_inside(x)

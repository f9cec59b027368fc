"""Dropout of all clients at once, each by its own seed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unskew.models.kernels.loaded import programs


class Dropping(Function):
    """Dropout of [clients, samples, features], with masks by each client's seed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: Tensor, how: tuple[float, int]) -> Tensor:
        ctx.save_for_backward(seed)
        ctx.how = how
        return _dropped(x, seed, how)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        (seed,) = ctx.saved_tensors
        return _dropped(slopes[0], seed, ctx.how), None, None


def _dropped(x: Tensor, seed: Tensor, how: tuple[float, int]) -> Tensor:
    (p, index), count = how, x[0].numel()
    x = x.contiguous()
    y = torch.empty_like(x)
    grid = (-(-count // 1024), x.shape[0])
    least, stream = round(p * 2**32) - 2**31, 0x61C88647 * (index + 1)
    programs().drop[grid](x, seed, y, count, x.stride(0), seed.stride(0), 1 / (1 - p), least, stream, 1024)
    return y

"""Convolution and pooling with the batch as the innermost axis: what small filters want on a CPU.

A batch of a few samples and filters with a few channels leaves oneDNN's kernels, which run along channels, half empty.
Here memory runs along the batch. Patches are then copied in long pieces, a convolution is one product of a small
matrix with a wide one, forwards and backwards, several clients are one batched product, and a pooling compares whole
rows. Tensors keep their usual shapes, [N, C, H, W]; only their strides say where the batch lies, so that whatever
comes between such layers needs to know nothing. The numbers are the same up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unskew.models.patches import can_be_patched, sides

Dims = tuple[int | None, ...]


class Convolve(torch.autograd.Function):
    """y = w * x + b over [clients, C, H, W, N]; also gives the patches, for its own backward pass."""

    @staticmethod
    def forward(x: Tensor, w: Tensor, b: Tensor, stride: tuple[int, int]) -> tuple[Tensor, Tensor]:
        seen = _seen(x, w, stride)
        clients, channels, high, wide, rows, columns, batch = seen.shape
        patches = seen.reshape(clients, channels * high * wide, rows * columns * batch)
        y = torch.baddbmm(b.unsqueeze(2), w.flatten(2), patches)
        return y.view(clients, -1, rows, columns, batch), patches

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        x, w, _, ctx.stride = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(x, w, output[1])

    @staticmethod
    def backward(ctx: Any, dy: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, w, patches = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody asks for the gradient of this gradient, by x too
            patches = _seen(x, w, ctx.stride).reshape(patches.shape)
        d = dy.contiguous().flatten(2)
        dw = torch.bmm(d, patches.transpose(1, 2)).view(w.shape)
        dx = None
        if ctx.needs_input_grad[0]:
            by_patch = torch.bmm(w.flatten(2).transpose(1, 2), d)
            dx = _add_patches(by_patch.view(-1, *w.shape[2:], *dy.shape[2:]), x.shape, ctx.stride)
        return dx, dw, d.sum(2), None

    @staticmethod
    def vmap(info: Any, in_dims: Dims, x: Tensor, w: Tensor, b: Tensor, stride: tuple[int, int]) -> Any:
        """Clients stacked by ``vmap``: their axis takes the place of the one that stands for a single client."""
        x, w, b = (_rows(v, d, info.batch_size) for v, d in zip((x, w, b), in_dims, strict=False))
        y, patches = convolve(x, w, b, stride)
        return (y.unsqueeze(1), patches.unsqueeze(1)), (0, 0)


def _seen(x: Tensor, w: Tensor, stride: tuple[int, int]) -> Tensor:
    """What each filter sees, [clients, C, high, wide, rows, columns, N]: a view of x."""
    clients, channels, height, width, batch = x.shape
    (high, wide), (down, right) = w.shape[3:], stride
    of_client, of_channel, of_row, of_column, _ = x.stride()
    return x.as_strided(
        (clients, channels, high, wide, (height - high) // down + 1, (width - wide) // right + 1, batch),
        (of_client, of_channel, of_row, of_column, down * of_row, right * of_column, 1),
    )


def _add_patches(d: Tensor, shape: tuple[int, ...], stride: tuple[int, int]) -> Tensor:
    """The gradient of an image by those of its patches, [clients, C, high, wide, rows, columns, N].

    First along the width, then along the height: so few additions are made, each a long one.
    """
    clients, channels, high, wide, rows, columns, batch = d.shape
    (down, right), width = stride, shape[3]
    lines = d.new_zeros(clients, channels, high, rows, width, batch)
    for j in range(wide):
        lines[..., j : j + right * (columns - 1) + 1 : right, :].add_(d[:, :, :, j])
    image = d.new_zeros(shape)
    for i in range(high):
        image[:, :, i : i + down * (rows - 1) + 1 : down].add_(lines[:, :, i])
    return image


class PoolPairs(torch.autograd.Function):
    """The larger of each two neighbours along an axis, the first where they are equal; and which it was.

    An odd last one is left out, as by torch.
    """

    @staticmethod
    def forward(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
        first, second = _pairs(x, axis)
        return torch.maximum(first, second), (second > first).to(x.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.shape, ctx.axis = inputs[0].shape, inputs[1]
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx: Any, d: Tensor, _: Tensor) -> tuple[Tensor, None]:
        (is_second,) = ctx.saved_tensors
        odd = ctx.shape[ctx.axis] % 2
        if torch.is_grad_enabled():
            both = torch.stack([d * (1 - is_second), d * is_second], ctx.axis + 1)
            image = both.flatten(ctx.axis, ctx.axis + 1).movedim(ctx.axis, -1)
            return F.pad(image, (0, odd)).movedim(-1, ctx.axis), None
        back = d.new_zeros(ctx.shape) if odd else d.new_empty(ctx.shape)
        first, second = _pairs(back, ctx.axis)
        torch.mul(d, is_second, out=second)
        torch.sub(d, second, out=first)
        return back, None

    @staticmethod
    def vmap(info: Any, in_dims: Dims, x: Tensor, axis: int) -> Any:
        larger, is_second = pool_pairs(x.movedim(in_dims[0] or 0, 0).squeeze(1), axis)
        return (larger.unsqueeze(1), is_second.unsqueeze(1)), (0, 0)


convolve: Callable[..., tuple[Tensor, Tensor]] = Convolve.apply
pool_pairs: Callable[..., tuple[Tensor, Tensor]] = PoolPairs.apply


def _pairs(x: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """The first and the second of each two along an axis."""
    pairs = x.shape[axis] // 2
    both = x.narrow(axis, 0, 2 * pairs).view(*x.shape[:axis], pairs, 2, *x.shape[axis + 1 :])
    return both.select(axis + 1, 0), both.select(axis + 1, 1)


def _rows(value: Tensor, axis: int | None, clients: int) -> Tensor:
    """What ``vmap`` hands over, with one axis of clients in front."""
    if axis is None:
        return value.expand(clients, *value.shape[1:])
    return value.movedim(axis, 0).squeeze(1)


def _batch_last(x: Tensor) -> Tensor:
    """[N, C, H, W] as [1, C, H, W, N], copied only where it does not lie so already."""
    return x.permute(1, 2, 3, 0).contiguous().unsqueeze(0)


class BatchLastConv2d(nn.Conv2d):
    """nn.Conv2d as one matrix product."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if input.dim() == 3:  # one sample without its axis
            return self._conv_forward(input[None], weight, bias)[0]
        top, left = sides(self)
        x = _batch_last(input)
        if top or left:
            x = F.pad(x, (0, 0, left, left, top, top))
        b = weight.new_zeros(len(weight)) if bias is None else bias
        y, _ = convolve(x, weight.unsqueeze(0), b.unsqueeze(0), self.stride)
        return y.squeeze(0).permute(3, 0, 1, 2)


class BatchLastPool2d(nn.MaxPool2d):
    """nn.MaxPool2d of 2x2: neighbours in a row first, for of equal ones torch takes the first in reading order."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 3:
            return self.forward(input[None])[0]
        rows, _ = pool_pairs(_batch_last(input), 3)
        return pool_pairs(rows, 2)[0].squeeze(0).permute(3, 0, 1, 2)


def pools_pairs(layer: nn.Module) -> bool:
    """Whether a layer is a plain 2x2 max pooling."""
    if not isinstance(layer, nn.MaxPool2d) or layer.return_indices or layer.ceil_mode:
        return False

    def both(value: Any, number: int) -> bool:
        return value in (number, (number, number))

    return (
        both(layer.kernel_size, 2)
        and both(layer.stride, 2)
        and both(layer.padding, 0)
        and both(layer.dilation, 1)
    )


def lay_batch_last(module: nn.Module) -> None:
    """Let a model's plain convolutions and poolings run along the batch, in place."""
    for layer in module.modules():
        if getattr(layer, "inplace", False):
            # what these layers put out is a view, which nothing may write into
            layer.__dict__["inplace"] = False
        if type(layer) is nn.Conv2d and can_be_patched(layer):
            layer.__class__ = BatchLastConv2d
        elif type(layer) is nn.MaxPool2d and pools_pairs(layer):
            layer.__class__ = BatchLastPool2d

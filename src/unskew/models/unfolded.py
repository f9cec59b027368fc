"""Convolution as one matrix product a client: what stacked clients want on a GPU.

Many clients' convolutions, each with its own weights, reach cuDNN as one grouped convolution, which it runs group
by group: hundreds of small kernels a step. Written as a copy of all patches and a product, the clients become one batched
product, forwards and backwards. The numbers are the same up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def columns(x: Tensor, height: int, width: int, pad: tuple[int, int]) -> Tensor:
    """The patches under a kernel at every place, [places, height x width x channels], of x in NHWC."""
    samples, tall, wide, channels = x.shape
    # three axes, so that torch does not ask for a memory format, which vmap cannot answer
    x = F.pad(x.reshape(samples, tall, -1), (pad[1] * channels, pad[1] * channels, pad[0], pad[0]))
    x = x.reshape(samples, tall + 2 * pad[0], wide + 2 * pad[1], channels)
    # a view of all patches and one copy of it: torch.cat of shifted slices would be a kernel a slice under vmap
    patches = x.unfold(1, height, 1).unfold(2, width, 1).permute(0, 1, 2, 4, 5, 3)
    return patches.reshape(-1, height * width * channels)


class _Convolution(torch.autograd.Function):
    """Stride 1; the input's gradient is again a convolution, with the kernel turned round."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, pad: tuple[int, int]) -> Tensor:
        out, _, height, width = weight.shape
        patches = columns(x.permute(0, 2, 3, 1), height, width, pad)
        found = patches @ weight.permute(2, 3, 1, 0).reshape(-1, out)
        shape = (x.shape[0], x.shape[2] + 2 * pad[0] - height + 1, x.shape[3] + 2 * pad[1] - width + 1, out)
        return found.reshape(shape).permute(0, 3, 1, 2).contiguous()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, weight, ctx.pad = inputs
        ctx.save_for_backward(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight = ctx.saved_tensors
        out, inside, height, width = weight.shape
        grad = grad.permute(0, 2, 3, 1)
        patches = columns(x.permute(0, 2, 3, 1), height, width, ctx.pad)
        by_weight = patches.t() @ grad.flatten(0, 2)
        by_weight = by_weight.reshape(height, width, inside, out).permute(3, 2, 0, 1)
        back = columns(grad, height, width, (height - 1 - ctx.pad[0], width - 1 - ctx.pad[1]))
        turned = weight.flip(2, 3).permute(2, 3, 0, 1).reshape(-1, inside)
        by_input = (back @ turned).reshape(x.shape[0], x.shape[2], x.shape[3], inside).permute(0, 3, 1, 2)
        return by_input.contiguous(), by_weight.contiguous(), None


class UnfoldedConv2d(nn.Conv2d):
    """nn.Conv2d by matrix products."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        pad = self.padding
        if isinstance(pad, str):
            pad = ((weight.shape[2] - 1) // 2, (weight.shape[3] - 1) // 2) if pad == "same" else (0, 0)
        found: Tensor = _Convolution.apply(input, weight, tuple(pad))  # type: ignore[no-untyped-call]
        return found if bias is None else found + bias.reshape(-1, 1, 1)


def unfold(module: nn.Module) -> None:
    """Let a model's plain convolutions (stride 1, no groups, no dilation) run as matrix products, in place."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d and _plain(layer):
            layer.__class__ = UnfoldedConv2d


def _plain(layer: nn.Conv2d) -> bool:
    odd = all(k % 2 == 1 for k in layer.kernel_size) or layer.padding != "same"
    fits = isinstance(layer.padding, str) or all(
        p < k for p, k in zip(layer.padding, layer.kernel_size, strict=True)
    )
    one = layer.stride == (1, 1) and layer.dilation == (1, 1) and layer.groups == 1
    return one and odd and fits and layer.padding_mode == "zeros"

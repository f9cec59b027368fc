"""Convolution as a product over patches: what stacked clients with small filters want on a GPU.

Many clients' convolutions, each with its own weights, would reach cuDNN as one grouped convolution, which it runs
group by group. Written as one copy of all patches and one product, they become a batched product, forwards and
backwards, whatever the number of clients. The numbers are the same up to rounding. It pays while patches are small:
they repeat every value as often as a filter has places.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class PatchedConv2d(nn.Conv2d):
    """nn.Conv2d as one matrix product."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if input.dim() == 3:  # one sample without its axis
            return self._conv_forward(input[None], weight, bias)[0]
        samples, channels, height, width = input.shape
        top, left = sides(self)
        # three axes, so that torch does not ask for a memory format, which vmap cannot answer
        flat = F.pad(input.reshape(samples * channels, height, width), (left, left, top, top))
        framed = flat.reshape(samples, channels, height + 2 * top, width + 2 * left)
        seen = framed.unfold(2, weight.shape[2], self.stride[0]).unfold(3, weight.shape[3], self.stride[1])
        places = seen.shape[2:4]
        patches = seen.permute(0, 2, 3, 1, 4, 5).reshape(-1, weight[0].numel())
        found = F.linear(patches, weight.flatten(1), bias)
        return found.reshape(samples, *places, -1).permute(0, 3, 1, 2).contiguous()  # a model may view() it


def sides(layer: nn.Conv2d) -> tuple[int, int]:
    """How many zeros a convolution puts above and below an image, and to its left and right."""
    if isinstance(layer.padding, str):
        top, left = ((k - 1) // 2 if layer.padding == "same" else 0 for k in layer.kernel_size)
        return top, left
    return layer.padding[0], layer.padding[1]


def can_be_patched(layer: nn.Module) -> bool:
    """Whether a layer is a plain two-dimensional convolution: no groups, no dilation, zeros around, as many on
    each side."""
    if type(layer) not in (nn.Conv2d, PatchedConv2d) or not isinstance(layer, nn.Conv2d):
        return False
    even = layer.padding == "same" and any(k % 2 == 0 for k in layer.kernel_size)
    return layer.groups == 1 and layer.dilation == (1, 1) and layer.padding_mode == "zeros" and not even


def patch(module: nn.Module) -> None:
    """Let a model's plain convolutions run as matrix products, in place."""
    for layer in module.modules():
        if can_be_patched(layer):
            layer.__class__ = PatchedConv2d

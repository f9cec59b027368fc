"""Layers and the loss of stacked clients on a GPU, each one kernel for all of them.

Under ``vmap``, over clients with weights of their own, these layers call ``unskew.models.kernels``; anywhere else they
are the layers that they were. Weights stay in float32 also where images are bf16: they are rounded once a step, beside
the model (``unskew.models.kernels.rounding``), and their gradients come back whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from unskew.models.kernels.convolution import Convolution, Walk
from unskew.models.kernels.cross_entropy import MOST_CLASSES, CrossEntropy
from unskew.models.kernels.dropping import Dropping
from unskew.models.kernels.normalisation import MOST_TILES, BatchNormalisation, tiles_of
from unskew.models.kernels.pooling import MaxPooling
from unskew.models.layers import BatchNorm, Dropout
from unskew.models.patches import can_be_patched, sides
from unskew.models.split import Stages


def use_kernels(module: nn.Module) -> frozenset[str]:
    """Let a model's plain convolutions, its batch norm and its classifier run by kernels when they are stacked, in
    place.

    The names of the weights that these layers round themselves.
    """
    rounded = set()
    for path, layer in module.named_modules():
        if can_be_patched(layer):
            layer.__class__ = StackedConv2d
            rounded |= {f"{path}.{name}" if path else name for name, _ in layer.named_parameters()}
        elif type(layer) is BatchNorm:
            layer.__class__ = StackedBatchNorm
        elif type(layer) is nn.MaxPool2d and _side_by_side(layer):
            layer.__class__ = StackedMaxPool2d
        elif type(layer) is Dropout and not layer.channels:
            layer.__class__ = StackedDropout
    # nobody cuts one of the library inside a stage, or takes a layer's weights for something else
    if isinstance(module, Stages):
        for path, layer in module.named_modules():
            if isinstance(layer, nn.Sequential):
                _join_relu(layer)
            elif type(layer) is nn.Linear and layer.weight.numel() <= LARGEST_LINEAR:
                layer.__class__ = StackedLinear
                rounded |= {f"{path}.{name}" for name, _ in layer.named_parameters()}
    return frozenset(rounded)


LARGEST_LINEAR = 2**16
"""Weights of a linear layer up to which it is a convolution of images of one place: a classifier, which is a chain of
small kernels to torch. Larger ones are left to cuBLAS."""


def fits_kernels(module: nn.Module) -> bool:
    """Whether a model convolves, and every convolution is one that the kernels do fast: tensor cores take sixteen
    channels at once."""
    filters = [m for m in module.modules() if isinstance(m, nn.modules.conv._ConvNd)]
    return bool(filters) and all(can_be_patched(m) and m.out_channels % 16 == 0 for m in filters)


def _join_relu(layers: nn.Sequential) -> None:
    """Batch norm does the work of a ReLU right behind it."""
    for before, after in zip([*layers], [*layers][1:], strict=False):
        if isinstance(before, StackedBatchNorm) and type(after) is nn.ReLU:
            before.relu = True
            after.__class__ = _Done


class _Done(nn.ReLU):
    """A ReLU whose work was done by the layer before it."""

    def forward(self, input: Tensor) -> Tensor:
        return input


def _stacked(*tensors: Tensor, beside: Sequence[Tensor | None] = ()) -> bool:
    """Whether one ``vmap`` runs over all of these, and over what goes ``beside`` them where anything does: and nothing
    else, as a gradient inside the loss or a second ``vmap`` in the first."""
    inside = torch._C._functorch
    given = [*tensors, *(t for t in beside if t is not None and inside.is_functorch_wrapped_tensor(t))]
    return (
        all(map(inside.is_batchedtensor, given))
        and len({inside.maybe_get_level(t) for t in given}) == 1
        and not any(inside.is_functorch_wrapped_tensor(inside.get_unwrapped(t)) for t in given)
    )


class StackedConv2d(nn.Conv2d):
    """nn.Conv2d."""

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if input.dim() == 4 and _stacked(input, weight, beside=[bias]):
            return _at_once(Convolution, input, weight, bias, Walk(_pair(self.stride), sides(self)))
        bias = None if bias is None else bias.to(input.dtype)
        found: Tensor = super()._conv_forward(input, weight.to(input.dtype), bias)
        return found


class StackedLinear(nn.Linear):
    """nn.Linear."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 2 and _stacked(input, self.weight, beside=[self.bias]):
            images, filters = (t[:, :, None, None] for t in (input, self.weight))
            return _at_once(Convolution, images, filters, self.bias, Walk((1, 1), (0, 0))).flatten(1)
        bias = None if self.bias is None else self.bias.to(input.dtype)
        return F.linear(input, self.weight.to(input.dtype), bias)


class StackedBatchNorm(BatchNorm):
    """BatchNorm, and the ReLU behind it where that was joined to it."""

    relu = False

    def forward(self, x: Tensor) -> Tensor:
        weight, running = self.sample_weight, (self.running_mean, self.running_var)
        beside = weight, self.weight, self.bias, *running
        if self.training and _stacked(x, beside=beside) and tiles_of(x) <= MOST_TILES:
            if weight.numel() == 0:
                weight = x.new_ones(x.shape[0])
            self.check_rows(x, weight)
            how = (self.eps, self.momentum, self.relu)
            return _at_once(BatchNormalisation, x, weight, self.weight, self.bias, *running, how)
        found = self._by_running(x) if not self.training and _stacked(x) else super().forward(x)
        return F.relu(found) if self.relu else found

    def _by_running(self, x: Tensor) -> Tensor:
        """By the running statistics: torch's own asks stacked images for their memory format, which vmap cannot say."""
        if self.running_mean is None or self.running_var is None:
            return super()._weighted(x)
        column = (1, -1, *[1] * (x.ndim - 2))
        scale = torch.rsqrt(self.running_var + self.eps)
        scale = scale if self.weight is None else scale * self.weight
        out = (x - self.running_mean.reshape(column)) * scale.reshape(column)
        out = out if self.bias is None else out + self.bias.reshape(column)
        return out.to(x.dtype)


class StackedMaxPool2d(nn.MaxPool2d):
    """nn.MaxPool2d whose windows lie side by side."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 4 and _stacked(input):
            return _at_once(MaxPooling, input, _pair(self.kernel_size))
        found: Tensor = super().forward(input)
        return found


def _side_by_side(layer: nn.MaxPool2d) -> bool:
    """Whether no place lies under two windows, and none outside the image."""
    plain = _pair(layer.padding) == (0, 0) and _pair(layer.dilation) == (1, 1)
    window = _pair(layer.kernel_size)
    alike = plain and window == _pair(layer.stride) and window[0] * window[1] <= 64
    return alike and not (layer.ceil_mode or layer.return_indices)


def _pair(side: Any) -> tuple[int, int]:
    down, right = (side, side) if isinstance(side, int) else side
    return down, right


class StackedDropout(Dropout):
    """Dropout."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and 0 < self.p < 1 and x.dim() == 2 and _stacked(x, self.seed):
            return _at_once(Dropping, x, self.seed, (self.p, self.index))
        return super().forward(x)


def stacked_cross_entropy(outputs: Tensor, targets: Tensor, weight: Tensor) -> Tensor | None:
    """One client's mean of cross-entropy, each sample counting by its weight, where one kernel finds it for all.

    None where it does not: of shares of classes, of weights that are learned, and of all that is not stacked.
    """
    if outputs.dim() != 2 or targets.dim() != 1 or outputs.shape[1] > MOST_CLASSES:
        return None
    if weight.dtype != torch.float32 or not _stacked(outputs, targets, weight):
        return None
    learned = torch._C._functorch.get_unwrapped(weight).requires_grad
    return None if learned else _at_once(CrossEntropy, outputs, targets, weight, None)


def _at_once(function: type[Function], *given: Any) -> Tensor:
    """What a function of all clients' tensors makes of one client's under ``vmap``; its last argument is no tensor."""
    found: Tensor = _UnderVmap.apply(function, *given)  # type: ignore[no-untyped-call]
    return found


class _UnderVmap(Function):
    """One client's call, which ``vmap`` makes all clients'."""

    @staticmethod
    def forward(*given: Any) -> Any:
        raise NotImplementedError("a layer that is not stacked is torch's own")

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        raise NotImplementedError("a layer that is not stacked is torch's own")

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: type[Function], *given: Any) -> Any:
        *tensors, how = given
        rows = [
            _rows(value, axis, info.batch_size) for value, axis in zip(tensors, in_dims[1:], strict=False)
        ]
        return function.apply(*rows, how), 0  # type: ignore[no-untyped-call]


def _rows(value: Tensor | None, axis: int | None, clients: int) -> Tensor | None:
    """With a row for every client."""
    if value is None:
        return None
    return value.expand(clients, *value.shape) if axis is None else value.movedim(axis, 0)

"""Dropout and batch norm as functions: what a step needs comes in as a buffer, nothing is remembered.

torch's own layers break two rules of stacked federated training. Dropout draws from the global generator, so
a run depends on who trained before whom; and batch norm counts the padding of a short batch. Here both take
one more buffer, which ``unskew.models.context`` fills for a step through ``torch.func.functional_call``:
dropout a ``seed``, batch norm a ``sample_weight``. Both work under ``vmap`` when those buffers (and batch
norm's running statistics) are stacked with the parameters.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unskew.errors import InputError
from unskew.models.random_words import random_words

M = TypeVar("M", bound=nn.Module)


class Dropout(nn.Module):
    """Dropout whose mask is a function of ``seed``, the layer's index and the element's place in the batch.

    A kept element is scaled by 1/(1-p); in eval mode the layer is the identity. ``channels`` drops whole
    channels, like torch's Dropout1d, 2d and 3d. Rows appended to a batch do not change the masks of the
    others. A layer that is called twice in one forward pass uses the same mask twice: give each place its own
    layer. Until ``context`` hands it a seed, the seed is 0.
    """

    seed: Tensor

    def __init__(self, p: float = 0.5, *, channels: bool = False, index: int = 0) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise InputError(f"dropout's p is a probability between 0 and 1, not {p}")
        self.p, self.channels, self.index = float(p), channels, index
        self.register_buffer("seed", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if self.p == 1:
            return x * 0
        shape = x.shape[:2] if self.channels else x.shape
        words = random_words(self.seed, self.index, math.prod(shape))
        stays = (words >= round(self.p * 2**32) - 2**31).reshape(*shape, *[1] * (x.ndim - len(shape)))
        like = x if stays.shape == x.shape else x.flatten(2)[:, :, 0].reshape(stays.shape)
        # in the memory layout of x: products across layouts are slow
        kept = torch.empty_like(like).copy_(stays)
        return x * kept.mul_(1 / (1 - self.p))

    def extra_repr(self) -> str:
        return f"p={self.p}, channels={self.channels}, index={self.index}"


def number_dropouts(module: M) -> M:
    """Give every dropout layer its place as its index, so that no two draw the same mask."""
    for index, dropout in enumerate(m for m in module.modules() if isinstance(m, Dropout)):
        dropout.index = index
    return module


class BatchNorm(nn.Module):
    """Batch norm, for any number of trailing axes, that counts only the samples that count.

    An empty ``sample_weight`` counts every sample, and torch's own kernel does the work. Otherwise it holds
    one weight per sample, 0 on padding: a padded sample reaches neither the statistics, nor the other samples'
    outputs and gradients, nor the running averages, whatever it holds. The running variance takes the
    unbiased estimate, n/(n-1) with n the weight behind a channel, as torch does.

    Where torch raises because a channel holds a single value, the variance is 0 here and the running variance
    stays as it was, since one value gives no estimate of it; where every sample is padding nothing changes.
    There is no ``num_batches_tracked`` (it is read past when loading), hence no ``momentum=None``.
    """

    weight: Tensor | None
    bias: Tensor | None
    running_mean: Tensor | None
    running_var: Tensor | None
    sample_weight: Tensor

    def __init__(
        self,
        features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        *,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__()
        self.features, self.eps, self.momentum = features, eps, momentum
        self.register_parameter("weight", nn.Parameter(torch.ones(features)) if affine else None)
        self.register_parameter("bias", nn.Parameter(torch.zeros(features)) if affine else None)
        self.register_buffer("running_mean", torch.zeros(features) if track_running_stats else None)
        self.register_buffer("running_var", torch.ones(features) if track_running_stats else None)
        self.register_buffer("sample_weight", torch.empty(0), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        from_batch = self.training or self.running_mean is None
        several = x.numel() > x.shape[1]
        if not from_batch or (self.sample_weight.numel() == 0 and several):
            found = F.batch_norm(
                x,
                self.running_mean,
                self.running_var,
                self.weight,
                self.bias,
                from_batch,
                self.momentum,
                self.eps,
            )
            return found.to(x.dtype)  # x may be bf16, whose statistics are float32 all the same
        return self._weighted(x)

    def _weighted(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        axes = [axis for axis in range(x.ndim) if axis != 1]
        column, row = (-1, *[1] * (x.ndim - 1)), (1, -1, *[1] * (x.ndim - 2))
        weight = self.sample_weight.to(wide.dtype)
        if weight.numel() == 0:
            weight = wide.new_ones(x.shape[0])
        self.check_rows(x, weight)
        weight = weight.reshape(column)
        count = weight.sum() * math.prod(x.shape[2:])
        # not only weighted by 0: padding may hold anything, and 0 * inf is nan
        wide = torch.where(weight > 0, wide, 0)
        total = torch.where(count > 0, count, 1)
        mean = (weight * wide).sum(axes) / total
        centred = wide - mean.reshape(row)
        variance = (weight * centred.square()).sum(axes) / total
        if self.training and self.running_mean is not None and self.running_var is not None:
            unbiased = variance * count / torch.where(count > 1, count - 1, 1)
            self._run(self.running_mean, mean.detach(), count > 0)
            self._run(self.running_var, unbiased.detach(), count > 1)
        scale = torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        out = centred * scale.reshape(row)
        if self.bias is not None:
            out = out + self.bias.reshape(row)
        return out.to(x.dtype)

    def check_rows(self, x: Tensor, weight: Tensor) -> None:
        """Refuse weights of other samples than these."""
        if weight.shape[0] != x.shape[0]:
            raise InputError(
                f"batch norm got {x.shape[0]} rows but {weight.shape[0]} sample weights; keep one row a "
                "sample up to every batch norm layer, or use GroupNorm"
            )

    def _run(self, running: Tensor, now: Tensor, counts: Tensor) -> None:
        """Move a running average in place: the buffer that was handed to ``functional_call`` changes."""
        running.add_(torch.where(counts, self.momentum * (now.to(running.dtype) - running), 0))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        return f"{self.features}, eps={self.eps}, momentum={self.momentum}"

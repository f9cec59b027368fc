"""The loss of all clients at once, each the mean over its own samples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unskew.models.kernels.layout import power_of_two
from unskew.models.kernels.loaded import step_programs

TILE, MOST_CLASSES = 2048, 2048
"""Logits that one program looks at together, and of them the most of one sample."""


class CrossEntropy(Function):
    """Logits [clients, samples, classes], classes and weights [clients, samples]: [clients]."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, weight: Tensor, how: None) -> Tensor:
        found, kept = (weight.new_empty(len(logits)) for _ in range(2))
        tile = _tile(logits)
        step_programs().cross_entropy[(len(logits),)](
            logits, targets, weight, found, kept, *_laid_out(logits, targets, weight), *tile
        )
        ctx.save_for_backward(logits, targets, weight, kept)
        return found

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Any:
        logits, targets, weight, kept = ctx.saved_tensors
        out = torch.empty_like(logits, memory_format=torch.contiguous_format)
        tall, wide = _tile(logits)
        step_programs().cross_entropy_gradient[-(-logits.shape[1] // tall), len(logits)](
            logits, targets, weight, kept, slopes[0], out,
            *_laid_out(logits, targets, weight), slopes[0].stride(0), tall, wide,
        )  # fmt: skip
        return out, None, None, None


def _laid_out(logits: Tensor, targets: Tensor, weight: Tensor) -> tuple[int, ...]:
    """How many samples and classes there are, and how far apart they lie."""
    return *logits.shape[1:], *logits.stride(), *targets.stride(), *weight.stride()


def _tile(logits: Tensor) -> tuple[int, int]:
    """Samples and classes that a program looks at together."""
    samples, classes = (power_of_two(n) for n in logits.shape[1:])
    return min(samples, TILE // classes), classes

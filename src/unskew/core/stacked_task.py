"""A task whose loss is one kernel for all stacked clients on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

from unskew.core.task import Classification, Task
from unskew.models.stacked_layers import stacked_cross_entropy


@dataclass(frozen=True)
class StackedClassification(Classification):
    """Classification, with the same loss up to rounding; of outputs in bf16, in float32."""

    def loss(
        self,
        outputs: Tensor,
        targets: Tensor,
        weight: Tensor | None = None,
        class_weights: Tensor | None = None,
    ) -> Tensor:
        found = None
        if weight is not None and class_weights is None:
            found = stacked_cross_entropy(outputs, targets, weight)
        if found is None:
            wide = outputs.to(torch.promote_types(outputs.dtype, torch.float32))
            found = super().loss(wide, targets, weight, class_weights)
        return found


def with_kernels(task: Task) -> Task:
    """The task by kernels where it is plain classification, else as it is."""
    if type(task) is not Classification:
        return task
    return StackedClassification(**{f.name: getattr(task, f.name) for f in fields(task)})

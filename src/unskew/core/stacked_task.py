"""A task whose loss is one kernel for all stacked clients on a GPU."""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from unskew.core.task import Classification, Task
from unskew.models.stacked_layers import stacked_cross_entropy


@dataclass(frozen=True)
class StackedClassification(Classification):
    """Classification, with the same loss up to rounding."""

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
        return super().loss(outputs, targets, weight, class_weights) if found is None else found


def with_kernels(task: Task) -> Task:
    """The task by kernels where it is plain classification, else as it is."""
    if type(task) is not Classification:
        return task
    return StackedClassification(**{f.name: getattr(task, f.name) for f in fields(task)})

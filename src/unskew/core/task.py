"""What a model's outputs are for: what is minimised, and what is predicted.

Every net has a task (``net.task``), and whoever takes a loss or a prediction asks it: the step of local training,
evaluation, questions to clients, parts that train something themselves, attacks. Nothing else names cross-entropy or
argmax, but for parts whose paper's own formula does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


class Task(ABC):
    """What outputs are held against, sample by sample: pure functions of tensors, for they are stacked and captured."""

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """The loss of each sample; classes may count differently."""

    @abstractmethod
    def predict(self, outputs: Tensor) -> Tensor:
        """What is predicted for each sample: to be compared with its target."""

    def loss(
        self,
        outputs: Tensor,
        targets: Tensor,
        weight: Tensor | None = None,
        class_weights: Tensor | None = None,
    ) -> Tensor:
        """The mean loss; ``weight`` is one number a sample, 0 on padding, and all count alike without it."""
        each = self.losses(outputs, targets, class_weights)
        return each.mean() if weight is None else weighted_mean(each, weight)


class Classification(Task):
    """One class of several: outputs are logits [B, classes], targets whole numbers [B] or shares [B, classes]."""

    def losses(self, outputs: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """Cross-entropy."""
        if class_weights is None:
            return cross_entropy(outputs, targets, reduction="none")
        right = soft_labels(targets, outputs) * class_weights
        return -(right * torch.log_softmax(outputs, 1)).sum(1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The class with the largest logit, or probability."""
        return outputs.argmax(1)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Of each class."""
        return outputs.softmax(1)


CLASSIFICATION = Classification()


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """The mean of one value a sample, by how much each counts; 0 where none does."""
    return (values * weight).sum() / weight.sum().clamp_min(1.0)


def soft_labels(target: Tensor, like: Tensor) -> Tensor:
    """Targets as probabilities of the classes of ``like`` [B, classes], whether they are hard or soft."""
    if target.dim() == like.dim():
        return target.to(like.dtype)
    return (target[:, None] == torch.arange(like.shape[1], device=like.device)).to(like.dtype)


def hard_labels(target: Tensor) -> Tensor:
    """Targets as classes [B]: of soft ones, the class with the largest share."""
    return target if target.dim() == 1 else target.argmax(1)

"""What a model's outputs are for: what is minimised, what is predicted, and how a model is judged by it.

Every net has a task (``net.task``), and whoever takes a loss or a prediction asks it: the step of local training,
evaluation, questions to clients, parts that train something themselves, attacks. Nothing else names cross-entropy or
argmax, but for parts whose paper's own formula does.

A model is judged in three steps. Where samples lie, outputs become ``answers``, some values for each sample. They are
summed there by group (``sums``): of clients' samples these sums are all that crosses to the server. The server works
its metrics out of them (``scores``). Its own test set it may look at sample by sample: ``Sums.answers``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.later import torch
from unskew.metrics import scores
from unskew.metrics.scores import Counts
from unskew.readings import METRICS, Reading

if TYPE_CHECKING:
    from torch import Tensor

Answers = Mapping[str, Array]
"""What a model says of samples, by name; the first axis is the samples'."""


@dataclass(frozen=True)
class Sums:
    """How a model did on groups of samples, each a row: the whole test set, or every client's own."""

    loss: Array
    count: Array
    answers: Answers | None = None  # sample by sample, with the "truth": of the server's own test set alone

    def means(self) -> dict[str, Array]:
        """Means over each group's samples by name, the "loss" among them; 0 where there is no sample."""
        return {"loss": self.loss / np.maximum(1, self.count)}

    def right_by_class(self) -> Array:
        """Samples that are right, of each class: [groups, classes]; where there are no classes, nothing."""
        return np.zeros((len(self.count), 0), np.int64)

    def take(self, groups: Array) -> Self:
        """Some of the groups."""
        return replace(self, answers=None, **{name: getattr(self, name)[groups] for name in self._tables()})

    def beside(self, others: Iterable[Self]) -> Self:
        """These groups, then those of the others."""
        every = [self, *others]
        tables = {name: np.concatenate([getattr(one, name) for one in every]) for name in self._tables()}
        return replace(self, answers=None, **tables)

    def together(self) -> Self:
        """All groups as one."""
        tables = {name: getattr(self, name).sum(0, keepdims=True) for name in self._tables()}
        return replace(self, answers=None, **tables)

    @property
    def numbers(self) -> int:
        """How many numbers one group is told by."""
        return sum(int(np.prod(getattr(self, name).shape[1:])) for name in self._tables())

    def _tables(self) -> list[str]:
        return [f.name for f in fields(self) if f.name != "answers"]


class Task(ABC):
    """What outputs are compared with. What is done sample by sample are pure functions of tensors, because they are
    stacked and captured. What is done with the answers is numpy, at the server or at a client."""

    metrics: ClassVar[Mapping[str, Reading]]
    """What a model may be judged by, the usual one first; ``scores`` works them out."""

    @abstractmethod
    def losses(self, outputs: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """The loss of each sample; classes may count differently."""

    @abstractmethod
    def predict(self, outputs: Tensor) -> Tensor:
        """What is predicted for each sample: to be compared with its target."""

    def answers(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """What is kept of each sample to judge a model by: its "loss", and what was "predicted"."""
        return {"predicted": self.predict(outputs), "loss": self.losses(outputs, targets)}

    def details(self, outputs: Tensor) -> dict[str, Tensor]:
        """What else is kept of each sample of the server's own test set."""
        return {}

    @abstractmethod
    def sums(
        self, truth: Array, answers: Answers, classes: int, owner: Array | None = None, groups: int = 1
    ) -> Sums:
        """The answers summed by the group that ``owner`` names for each sample; without it all are one group."""

    @abstractmethod
    def scores(self, found: Sums) -> dict[str, Array]:
        """Every metric that applies, one value per group, NaN where there is none."""

    def fitting(self, classes: int) -> tuple[str, ...]:
        """The names of the metrics that data with so many classes has."""
        return tuple(self.metrics)

    def notes(self, found: Sums) -> dict[str, Any]:
        """What a line of the log tells beside the metrics, of one group."""
        return {}

    def loss(
        self,
        outputs: Tensor,
        targets: Tensor,
        weight: Tensor | None = None,
        class_weights: Tensor | None = None,
    ) -> Tensor:
        """The mean loss; ``weight`` is one number per sample, 0 on padding, and all count alike without it."""
        each = self.losses(outputs, targets, class_weights)
        return each.mean() if weight is None else weighted_mean(each, weight)


@dataclass(frozen=True)
class ClassSums(Sums):
    """Sums of a classifier: samples that are of each class, that were taken for it, and both: [groups, classes]."""

    truths: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    guesses: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    hits: Array = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @property
    def counts(self) -> Counts:
        """What metrics are worked out of."""
        return Counts(self.truths, self.guesses, self.hits)

    def right_by_class(self) -> Array:
        return self.hits

    def means(self) -> dict[str, Array]:
        right = self.hits.sum(-1)
        return super().means() | {"accuracy": right / np.maximum(1, self.count)}


@dataclass(frozen=True)
class Classification(Task):
    """One class of several: outputs are logits [B, classes], targets whole numbers [B] or shares [B, classes].

    With ``keep_probabilities`` those of every test sample are kept, for metrics that look at them.
    """

    metrics: ClassVar[Mapping[str, Reading]] = METRICS

    keep_probabilities: bool = False

    def losses(self, outputs: Tensor, targets: Tensor, class_weights: Tensor | None = None) -> Tensor:
        """Cross-entropy."""
        if class_weights is None and targets.dim() == 1 and torch._C._functorch.is_batchedtensor(outputs):
            # vmap takes torch's own apart in Python: a quarter of a small step, and half a second to load for it
            return -torch.log_softmax(outputs, 1).gather(1, targets[:, None])[:, 0]
        if class_weights is None:
            return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")
        right = soft_labels(targets, outputs) * class_weights
        return -(right * torch.log_softmax(outputs, 1)).sum(1)

    def predict(self, outputs: Tensor) -> Tensor:
        """The class with the largest logit, or probability."""
        return outputs.argmax(1)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Of each class."""
        return outputs.softmax(1)

    def details(self, outputs: Tensor) -> dict[str, Tensor]:
        """Of two classes the log-odds of the second, by which AUC ranks: unlike probabilities they never saturate."""
        kept = {"log_odds": outputs[:, 1] - outputs[:, 0]} if outputs.shape[1] == 2 else {}
        return kept | ({"probabilities": self.probabilities(outputs)} if self.keep_probabilities else {})

    def sums(
        self, truth: Array, answers: Answers, classes: int, owner: Array | None = None, groups: int = 1
    ) -> ClassSums:
        counts = Counts.over(truth, answers["predicted"], classes, owner, groups)
        if owner is None:  # class by class, then together: the order is part of the last bits
            loss = np.bincount(truth, answers["loss"], minlength=classes).sum(keepdims=True)
        else:
            loss = np.bincount(owner, answers["loss"], minlength=groups)
        seen = {**answers, "truth": truth} if owner is None else None
        return ClassSums(
            loss, counts.truths.sum(1), seen, truths=counts.truths, guesses=counts.guesses, hits=counts.hits
        )

    def scores(self, found: Sums) -> dict[str, Array]:
        assert isinstance(found, ClassSums)
        counts = found.counts
        worked_out = {
            "accuracy": scores.accuracy(counts),
            "balanced_accuracy": scores.balanced_accuracy(counts),
            "macro_f1": scores.macro_f1(counts),
            "worst_class": scores.worst_class(counts),
            "log_loss": np.where(found.count > 0, found.means()["loss"], np.nan),
        }
        if found.answers is not None and "log_odds" in found.answers:
            value = scores.auc(found.answers["truth"] == 1, found.answers["log_odds"])
            worked_out["auc"] = np.array([value])
        return worked_out

    def fitting(self, classes: int) -> tuple[str, ...]:
        return tuple(name for name in self.metrics if name != "auc" or classes == 2)

    def notes(self, found: Sums) -> dict[str, Any]:
        """The accuracy of each class, None for one without a sample."""
        assert isinstance(found, ClassSums)
        (by_class,) = scores.class_accuracies(found.counts)
        return {"per_class_accuracy": [None if np.isnan(share) else float(share) for share in by_class]}


CLASSIFICATION = Classification()


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """The mean of one value per sample, by how much each counts; 0 where none does."""
    return (values * weight).sum() / weight.sum().clamp_min(1.0)


def soft_labels(target: Tensor, like: Tensor) -> Tensor:
    """Targets as probabilities of the classes of ``like`` [B, classes], whether they are hard or soft."""
    if target.dim() == like.dim():
        return target.to(like.dtype)
    return (target[:, None] == torch.arange(like.shape[1], device=like.device)).to(like.dtype)


def hard_labels(target: Tensor) -> Tensor:
    """Targets as classes [B]: of soft ones, the class with the largest share."""
    return target if target.dim() == 1 else target.argmax(1)

"""Distillation of what the global model thinks of the wrong answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Needs, Objective, Step
from unskew.core.task import hard_labels, soft_labels
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

LEFT_OUT = -1e4
"""A logit that is in no softmax."""


@dataclass(frozen=True)
class FedNTD(Objective):
    """Keeps the global model's view of the not-true classes (Lee et al., NeurIPS 2022).

    A client minimises CE + beta tau^2 KL(q_g || q). q and q_g are the softmax of its own and of the global model's
    logits at temperature tau, both over the classes other than a sample's true one. So what was known of other classes
    is kept, and nothing stops the true one from being learnt. With two classes there is one not-true class, and the
    term is 0.

    beta, tau: 1 and 1, as in the authors' settings and in FLea's code (the authors' class defaults to tau 3). The
    factor tau^2 is their code's. The teacher is the global model of the round, judged with its own batch statistics and
    without dropout. Of soft labels, the class with the largest share is the true one.
    """

    name: ClassVar[str] = "fedntd"
    needs: ClassVar[Needs] = Needs(global_answers=True)
    paper: ClassVar[str] = "Lee et al., NeurIPS 2022"
    neutral: ClassVar[str | None] = "fedntd(beta=0)"

    beta: float = 1.0
    tau: float = 1.0

    def __post_init__(self) -> None:
        if self.beta < 0:
            raise InputError(f"beta of fedntd must be at least 0, not {self.beta}")
        if self.tau <= 0:
            raise InputError(f"tau of fedntd is a temperature above 0, not {self.tau}")

    def penalty(self, step: Step) -> Tensor | float:
        if self.beta == 0:
            return 0.0
        assert step.out is not None
        logits, target = step.out.logits, step.out.target
        true = soft_labels(hard_labels(target), logits) > 0
        teacher = step.teacher()
        own, known = (
            torch.log_softmax((z / self.tau).masked_fill(true, LEFT_OUT), dim=1) for z in (logits, teacher)
        )
        apart = (known.exp() * (known - own)).sum(1)
        return self.beta * self.tau**2 * step.batch.mean(apart)

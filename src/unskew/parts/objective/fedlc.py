"""Logits calibrated by how often a client sees each class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Needs, Objective, Step
from unskew.core.task import soft_labels
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

LEFT_OUT = 1e4
"""A margin that takes a class out of any softmax; minus infinity would turn the zero weight of padding into nan."""


@dataclass(frozen=True)
class FedLC(Objective):
    """Lowers every logit by a margin that grows as the class gets rarer at the client (Zhang et al., ICML 2022).

    A client minimises -log(exp(z_y - tau n_y^(-1/4)) / sum over c of exp(z_c - tau n_c^(-1/4))), with n_c how many
    samples of class c it holds: the rarer the class, the further its logit must stand out.

    tau: 1 as in FLea's code, FL-bench and PFLlib (bytedance/FedDecorr and fluke have 0.1); FLea tried 0.1 to 1.
    absent: what is added to every count, so that a class the client lacks has a finite margin. At 0 the formula's
    own limit holds, and such a class leaves the softmax: its weights stay as they came (so do fluke and
    bytedance/FedDecorr). FLea's code has 1e-6, a margin of 31.6 tau; FL-bench 1e-8, 100 tau. With parts that train on
    labels of others, such as FedMix, write 1: no logit ever makes up for a larger margin.
    printed: sum over c != y only, as the paper prints it. That loss has no lower bound, and training on it was seen
    to collapse (FL-bench#5, #38); the default keeps y in the sum.
    """

    name: ClassVar[str] = "fedlc"
    needs: ClassVar[Needs] = Needs(global_model=False)
    paper: ClassVar[str] = "Zhang et al., ICML 2022"
    neutral: ClassVar[str | None] = "fedlc(tau=0)"

    tau: float = 1.0
    absent: float = 0.0
    printed: bool = False

    def __post_init__(self) -> None:
        if self.tau < 0:
            raise InputError(f"tau of fedlc must be at least 0, not {self.tau}")
        if self.absent < 0:
            raise InputError(
                f"absent of fedlc is added to counts and must be at least 0, such as 1e-6, not {self.absent}"
            )

    @property
    def own_labels_only(self) -> str:
        return "fedlc(absent=1)" if self.tau > 0 and self.absent == 0 else ""

    def logits(self, logits: Tensor, step: Step) -> Tensor:
        if self.tau == 0:
            return logits
        counts = step.census.to(logits.dtype) + self.absent
        margins = self.tau * torch.where(counts > 0, counts, 1.0).pow(-0.25)
        return logits - torch.where(counts > 0, margins, LEFT_OUT)

    def penalty(self, step: Step) -> Tensor | float:
        if not self.printed:
            return 0.0
        assert step.out is not None
        # cross-entropy has log of the whole sum; what turns it into the sum over c != y is log(1 - p_y)
        calibrated = self.logits(step.out.logits, step)
        others = calibrated - LEFT_OUT**2 * soft_labels(step.out.target, calibrated)
        return step.batch.mean(others.logsumexp(1) - calibrated.logsumexp(1))

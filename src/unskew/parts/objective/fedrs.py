"""A softmax that holds back the classes a client lacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from unskew.core.slots import Needs, Objective, Step
from unskew.core.task import soft_labels
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FedRS(Objective):
    """Scales down the logits of classes that a client does not hold (Li and Zhan, KDD 2021).

    Without samples of a class, softmax only ever pushes its weights away. The restricted softmax has
    p_c = exp(a_c z_c) / sum of exp(a_j z_j) with a_c = 1 for the classes a client holds and ``alpha`` for the
    others, so that these weights move less: their gradient is alpha times the plain one at the scaled logits.

    alpha: 0.5 as in the paper's experiments, bytedance/FedDecorr and FLea's code (fluke's settings have 0.1).
    absent: what a class must be absent from: the ``client``, as in the paper, or the ``batch``, as in FLea's code.
    FLea's code also takes one batch an epoch and clips gradients at 1: settings of the run (steps, clip).
    """

    name: ClassVar[str] = "fedrs"
    needs: ClassVar[Needs] = Needs(global_model=False)
    paper: ClassVar[str] = "Li and Zhan, KDD 2021"
    neutral: ClassVar[str | None] = "fedrs(alpha=1)"

    alpha: float = 0.5
    absent: Literal["client", "batch"] = "client"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha of fedrs must be from 0 to 1, not {self.alpha}")

    def logits(self, logits: Tensor, step: Step) -> Tensor:
        held = step.census > 0
        if self.absent == "batch":
            assert step.out is not None
            present = soft_labels(step.out.target, logits) * step.batch.weight[:, None]
            held = present.sum(0) > 0
        # in the logits' own type: two plain numbers would come as float32, and alpha rounded to it
        return torch.where(held, logits, self.alpha * logits)

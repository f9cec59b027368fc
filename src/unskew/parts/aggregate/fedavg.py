"""The weighted mean of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Aggregate
from unskew.core.types import Update
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FedAvg(Aggregate):
    """Averages models, weighted by the samples behind them (McMahan et al., AISTATS 2017).

    w <- sum over the cohort of n_k / n w_k (thesis eq. 2.2; FLea eq. 1), with n the samples of those who
    answered. ``uniform=true`` gives every client the same weight.
    """

    name: ClassVar[str] = "fedavg"
    paper: ClassVar[str] = "McMahan et al., AISTATS 2017"
    weighs_examples_only: ClassVar[bool] = True
    uniform: bool = False

    def weights(self, update: Update) -> Tensor:
        n = torch.ones_like(update.examples) if self.uniform else update.examples
        return n / n.sum().clamp_min(torch.finfo(n.dtype).tiny)  # a cohort without samples moves nothing

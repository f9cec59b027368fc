"""Momentum at the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Advance
from unskew.core.types import Memory, Tree, moved_by
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from unskew.core.net import Net


@dataclass(frozen=True)
class FedAvgM(Advance):
    """Keeps the momentum of the changes at the server, which evens out cohorts that pull apart (Hsu et al., 2019).

    v <- beta v + Delta, then w <- w + eta v, with Delta the aggregated change (the paper's -Delta w). v starts at 0.

    beta: the share of the momentum that is kept, 0.9 as in the paper's comparison. eta: the server's step size, 1 in
    the paper. A constant Delta ends in steps of eta Delta / (1 - beta): with 0.9, ten times FedAvg's, so learning rates
    that suit FedAvg may be too large.

    Left open, and taken: the momentum is plain, not Nesterov's; a round in which no upload lands leaves it as it is.
    """

    name: ClassVar[str] = "fedavgm"
    paper: ClassVar[str] = "Hsu et al., 2019"
    neutral: ClassVar[str | None] = "fedavgm(beta=0)"

    beta: float = 0.9
    eta: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise InputError(f"beta of fedavgm must be at least 0 and below 1, not {self.beta}")
        if self.eta <= 0:
            raise InputError(f"eta of fedavgm must be above 0, not {self.eta}")

    def init_server(self, net: Net) -> Memory:
        return {"momentum": {k: torch.zeros_like(net.initial[k]) for k in net.trainable}}

    def step(self, params: Tree, change: Tree, memory: Memory) -> tuple[Tree, Memory]:
        before: Tree = memory["momentum"]
        momentum = {k: self.beta * before[k].double() + delta for k, delta in change.items()}
        kept = {k: v.to(before[k].dtype) for k, v in momentum.items()}
        return moved_by(params, {k: self.eta * v for k, v in momentum.items()}), {"momentum": kept}

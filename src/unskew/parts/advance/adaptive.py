"""What the adaptive server optimisers of Reddi et al. (ICLR 2021, algorithm 2) have in common."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unskew.core.net import Net
from unskew.core.slots import Advance
from unskew.core.types import Memory, Tree, moved_by
from unskew.errors import InputError


@dataclass(frozen=True)
class Adaptive(Advance):
    """Two moments of the changes: steps are long where changes were small and agreed.

    Algorithm 2: m <- beta1 m + (1 - beta1) Delta; then v, where the three differ; then
    w <- w + eta m / (sqrt(v) + tau). m starts at 0 and v at tau^2, the least that the paper allows. Nothing
    corrects their bias, as in the paper. Both are kept in the model's precision and computed in float64.
    """

    eta: float
    beta1: float
    tau: float

    def __post_init__(self) -> None:
        shares = [("beta1", self.beta1)] + ([("beta2", self.beta2)] if hasattr(self, "beta2") else [])
        for which, share in shares:
            if not 0 <= share < 1:
                raise InputError(f"{which} of {self.name} must be at least 0 and below 1, not {share}")
        for which, positive in (("eta", self.eta), ("tau", self.tau)):
            if positive <= 0:
                raise InputError(f"{which} of {self.name} must be above 0, not {positive}")

    def init_server(self, net: Net) -> Memory:
        first = {k: torch.zeros_like(net.initial[k]) for k in net.trainable}
        return {"m": first, "v": {k: torch.full_like(v, self.tau**2) for k, v in first.items()}}

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        """v after a change whose square is this, in float64."""
        raise TypeError(f"{self.name} does not say how its second moment grows: define second_moment()")

    def step(self, params: Tree, change: Tree, memory: Memory) -> tuple[Tree, Memory]:
        m, v, step = {}, {}, {}
        for k, delta in change.items():
            first = self.beta1 * memory["m"][k].double() + (1 - self.beta1) * delta
            second = self.second_moment(memory["v"][k].double(), delta.square())
            step[k] = self.eta * first / (second.sqrt() + self.tau)
            m[k], v[k] = first.to(params[k].dtype), second.to(params[k].dtype)
        return moved_by(params, step), {"m": m, "v": v}

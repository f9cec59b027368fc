"""Adagrad at the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Advance
from unskew.core.types import Memory, Tree
from unskew.parts.advance.moments import check_moments, first_moments, step_by_moments

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass(frozen=True)
class FedAdagrad(Advance):
    """Steps less in weights that have changed much so far (Reddi et al., ICLR 2021, algorithm 2).

    m <- beta1 m + (1 - beta1) Delta, v <- v + Delta^2 and w <- w + eta m / (sqrt(v) + tau), weight by weight, with
    Delta the aggregated change. m starts at 0, v at tau^2; nothing corrects their bias, as in the paper.

    eta: the server's step size. The paper tunes it for each task, and so should you: it is about how far a weight goes
    in a round. beta1: the share of m that is kept, 0 in the paper. tau: keeps steps small where changes are tiny; 0.001
    in the paper.
    """

    name: ClassVar[str] = "fedadagrad"
    paper: ClassVar[str] = "Reddi et al., ICLR 2021"

    eta: float = 0.1
    beta1: float = 0.0
    tau: float = 0.001

    def __post_init__(self) -> None:
        check_moments(self.name, eta=self.eta, tau=self.tau, beta1=self.beta1)

    def init_server(self, net: Net) -> Memory:
        return first_moments(net, self.tau)

    def step(self, params: Tree, change: Tree, memory: Memory) -> tuple[Tree, Memory]:
        def second(v: Tensor, square: Tensor) -> Tensor:
            # algorithm 2, FedAdagrad
            return v + square

        values = {"eta": self.eta, "beta1": self.beta1, "tau": self.tau}
        return step_by_moments(params, change, memory, second, **values)

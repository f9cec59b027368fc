"""Adagrad at the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unskew.parts.advance.adaptive import Adaptive


@dataclass(frozen=True)
class FedAdagrad(Adaptive):
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

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return v + square  # algorithm 2, FedAdagrad

"""Adam at the server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from unskew.parts.advance.adaptive import Adaptive


@dataclass(frozen=True)
class FedAdam(Adaptive):
    """Steps further in weights whose changes are small and agree from round to round (Reddi et al., ICLR 2021).

    m <- beta1 m + (1 - beta1) Delta, v <- beta2 v + (1 - beta2) Delta^2 and w <- w + eta m / (sqrt(v) + tau), weight by
    weight (algorithm 2), with Delta the aggregated change. m starts at 0, v at tau^2; nothing corrects their bias, as
    in the paper.

    eta: the server's step size. The paper tunes it for each task, and so should you: it is about how far a weight goes
    in a round. beta1, beta2: the shares of m and v that are kept, as in the paper. tau: keeps steps small where changes
    are tiny; 0.001 in the paper.
    """

    name: ClassVar[str] = "fedadam"
    paper: ClassVar[str] = "Reddi et al., ICLR 2021"

    eta: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 0.001

    def second_moment(self, v: Tensor, square: Tensor) -> Tensor:
        return self.beta2 * v + (1 - self.beta2) * square  # algorithm 2, FedAdam

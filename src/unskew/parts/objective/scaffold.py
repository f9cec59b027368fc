"""Control variates against client drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Exchange, Step, Visit
from unskew.core.types import Memory, Tree, Update, moved_by, weighted_sum
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from unskew.core.net import Net


@dataclass(frozen=True)
class Scaffold(Exchange):
    """Corrects each step by how a client's gradient differs from everybody's (Karimireddy et al., ICML 2020).

    A client steps along g - c_i + c (eq. 3) and then renews its variate (eq. 4) by
    option 1: c_i+ = the gradient of its whole data at the global model, or
    option 2: c_i+ = c_i - c + (x - y_i) / (K lr), the mean gradient of its K steps.
    The server takes c <- c + sum of (c_i+ - c_i) / N and x <- x + eta mean of (y_i - x) (eq. 5), so that c stays
    the mean of all c_i. All start at 0. The mean over clients is uniform, as in the paper; write ``scaffold+fedavg``
    to weigh by samples.

    option: I or II of eq. 4, as 1 or 2. eta: eta_g, the server's step size.

    Left open, and taken: with local momentum, K lr is replaced by how far the optimiser carries a constant gradient of
    1 in K steps. K lr itself would make c_i about 1/(1 - momentum) times too large, and training would diverge. Option
    1 takes the loss with logits and class weights as other parts have them (FedLC, Balanced), without penalties or what
    is drawn for a step, and batch norm by the statistics of the client's samples, as in a step. Where a model was
    handed over (SEM) or blended (Phase-shift), the displacement and the steps of all legs count, and the client that
    uploads renews its variate, as in SEM's code. A variate moves when its upload lands.
    """

    name: ClassVar[str] = "scaffold"
    paper: ClassVar[str] = "Karimireddy et al., ICML 2020"
    discloses: ClassVar[tuple[str, ...]] = ("the change of its control variate",)
    implies: ClassVar[str] = "fedavg(uniform=true)"

    option: int = 2
    eta: float = 1.0

    def __post_init__(self) -> None:
        if self.option not in (1, 2):
            raise InputError(f"option of scaffold must be 1 or 2, the paper's I and II, not {self.option}")
        if self.eta <= 0:
            raise InputError(f"eta of scaffold must be above 0, not {self.eta}")

    def init_server(self, net: Net) -> Memory:
        return {k: torch.zeros_like(net.initial[k]) for k in net.trainable}

    def init_client(self, net: Net, size: float) -> Memory:
        return self.init_server(net)

    def hand_out(self, memory: Memory, t: int) -> Tree:
        return memory

    def correct(self, grads: Tree, step: Step) -> Tree:
        return {k: g - step.mine[k] + step.shared[k] for k, g in grads.items()}

    def report(self, visit: Visit) -> tuple[Tree, Memory]:
        if visit.work == 0:  # no data, no step, nothing learnt
            renewed = visit.mine
        elif self.option == 1:
            renewed = visit.gradient(visit.anchor)
        else:
            renewed = {k: visit.mine[k] - visit.shared[k] - v / visit.work for k, v in visit.moved.items()}
        return {k: v - visit.mine[k] for k, v in renewed.items()}, renewed

    def absorb(self, memory: Memory, update: Update, clients: int) -> Memory:
        each = torch.full((len(update),), 1 / clients, dtype=torch.float64)
        return moved_by(memory, weighted_sum(update.uploads[self.name], each))

    def adjust(self, change: Tree, memory: Memory) -> Tree:
        return change | {k: self.eta * change[k] for k in memory}

"""A regulariser that makes local minima agree with the global one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Exchange, Needs, Step, Visit
from unskew.core.types import Memory, Tree, Update, moved_by
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass(frozen=True)
class FedDyn(Exchange):
    """Tilts each client's loss so that its minimum moves to the global one (Acar et al., ICLR 2021).

    A client minimises L_k(w) - <grad_k, w> + alpha/2 ||w - w_t||^2 (eq. 1) and then takes
    grad_k <- grad_k - alpha (w_k - w_t) (eq. 2). With g_k = -grad_k / alpha, the sum of its displacements so far,
    the penalty is alpha (<g_k, w> + ||w - w_t||^2 / 2) and g_k <- g_k + (w_k - w_t). The server keeps
    h <- h + sum of (w_k - w_t) / N, which is the mean of all g_k (-h / alpha in the paper's letters), and ends with
    w_{t+1} = mean of w_k + h. The mean is uniform, as in the paper; write ``feddyn+fedavg`` to weigh by samples.

    alpha: alpha of eq. 1, 0.01 as in the authors' CIFAR example.
    weighted: divide alpha by n_k relative to the mean client, as the authors' code does (the paper has one alpha).
    Their example also clips gradients at 10 and decays weights by 0.001: settings of the run (clip, weight_decay).

    What is tested is w_t itself, not the mean of w_k without h. Under SEM and Phase-shift the displacement is that of
    the uploaded model from the global one, remembered by the client that uploads it. Where uploads lose something
    (topk, quantize), h is made of what arrived and g_k of what was trained; then h is only about the mean of all g_k.
    """

    name: ClassVar[str] = "feddyn"
    paper: ClassVar[str] = "Acar et al., ICLR 2021"
    implies: ClassVar[str] = "fedavg(uniform=true)"
    needs: ClassVar[Needs] = Needs(plain_mean=True)

    alpha: float = 0.01
    weighted: bool = True

    def __post_init__(self) -> None:
        if self.alpha <= 0:
            raise InputError(f"alpha of feddyn must be above 0, not {self.alpha}; at 0 write fedavg")

    def init_server(self, net: Net) -> Memory:
        return {k: torch.zeros_like(net.initial[k]) for k in net.trainable}

    def init_client(self, net: Net, size: float) -> Memory:
        first = net.initial[net.trainable[0]]
        # a client without samples takes no step, whatever its alpha
        alpha = self.alpha / size if self.weighted and size else self.alpha
        gone = {k: torch.zeros_like(net.initial[k]) for k in net.trainable}
        return {"alpha": torch.tensor(alpha, dtype=first.dtype), "gone": gone}

    def penalty(self, step: Step) -> Tensor | float:
        total: Tensor | float = 0.0
        alpha: Tensor = step.mine["alpha"]
        gone: Tree = step.mine["gone"]
        for k, w in step.params.items():
            total = total + (w * gone[k]).sum() + (w - step.anchor[k]).square().sum() / 2
        return alpha * total

    def proximal_mu(self, shared: Tree, mine: Memory) -> float:
        return float(mine["alpha"])

    def report(self, visit: Visit) -> tuple[Tree, Memory]:
        before = visit.mine["gone"]
        gone = {k: before[k] + (visit.end[k] - visit.anchor[k]) for k in visit.moved}
        return {}, {"alpha": visit.mine["alpha"], "gone": gone}

    def absorb(self, memory: Memory, update: Update, clients: int) -> Memory:
        each = torch.full((len(update),), 1 / clients, dtype=torch.float64)
        return moved_by(memory, update.weighted_delta(each, memory))

    def adjust(self, change: Tree, memory: Memory) -> Tree:
        return change | {k: change[k] + h for k, h in memory.items()}

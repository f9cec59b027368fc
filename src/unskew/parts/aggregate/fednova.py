"""Updates normalised by how much local work is in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Aggregate
from unskew.core.types import Update
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class FedNova(Aggregate):
    """Averages updates per unit of local work, so that clients with more steps do not count more (Wang et al., 2020).

    x <- x + tau_eff sum of p_i delta_i / ||a_i||_1 (eq. 8), with p_i = n_i / n and tau_eff = sum of p_i ||a_i||_1. a_i
    says how the local optimiser adds up gradients (section 4.2). Its sum is

    - tau_i for plain SGD,
    - (tau - r (1 - r^tau) / (1 - r)) / (1 - r) with momentum r,
    - (1 - (1 - lr mu)^tau) / (lr mu) with a proximal pull mu.

    With a pull, tau_eff takes the steps without it, as in the authors' code.
    Momentum and mu are the run's own: ``fednova+fedprox(0.005)`` with ``--momentum 0.9`` needs nothing more. With both
    at once the code adds two corrections one after the other; here a_i is exact. Learning rates that differ between
    clients count as work.

    With equal work it is FedAvg. Under SEM the work of both clients counts; under Phase-shift what of the work is left
    in the model after each blend. Batch-norm statistics, which are no sum of gradients, are averaged by p_i.
    """

    name: ClassVar[str] = "fednova"
    paper: ClassVar[str] = "Wang et al., NeurIPS 2020"

    def weights(self, update: Update) -> Tensor:
        p, longest = self.statistics(update), update.reach.max()
        # in units of the longest, and around 1, so that equal work gives FedAvg's weights to the last bit
        effective = 1 + (p * (update.reach / longest - 1)).sum()
        # a client without steps has moved nothing; any finite weight does
        return p * torch.where(update.pulled > 0, effective / (update.pulled / longest), 0.0)

    def statistics(self, update: Update) -> Tensor:
        n = update.examples
        return n / n.sum().clamp_min(torch.finfo(n.dtype).tiny)

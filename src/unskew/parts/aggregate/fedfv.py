"""Conflicting gradients made to agree before they are averaged."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Aggregate
from unskew.core.types import Memory, Tree, Update, join, rows, weighted_sum
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net

NOISE = 1e-12
"""The share of a squared length that rounding leaves of float32 gradients that cancel."""


@dataclass(frozen=True)
class FedFV(Aggregate):
    """Projects conflicting gradients onto each other's normal planes, then averages (Wang et al., IJCAI 2021).

    The gradient of client k is g_k = w_t - w_k. Clients are put in ascending order of the global model's loss on their
    data (algorithm 2). The alpha share with the largest loss keep their g_k. Every other g_k is projected,
    g_k <- g_k - (g_k.g_i / ||g_i||^2) g_i,
    for each i of that order whose original g_i it conflicts with (g_k.g_i < 0). The uniform mean of all is g.

    Then g is projected likewise (algorithm 3) against past gradients, once tau rounds have passed. For i = tau down to
    1, take the last gradients of clients that were last seen i rounds ago; g is projected against the sum of those that
    it conflicts with. A round in which no upload lands is not counted. The result gets the length of the plain mean of
    g_k.

    alpha: the share kept as it is. tau: how many past rounds count. The authors' defaults are 0.1 and 1; SEM's setting
    is ``fedfv(alpha=0.5, tau=0)``. Their code counts the present round as the first past one; this follows the paper.
    Projections are linear, so only the products of gradients are needed, not copies of them; the last gradients of tau
    cohorts wait on the server.

    Without a conflict it is FedAvg with uniform weights. Batch-norm statistics are averaged uniformly.
    """

    name: ClassVar[str] = "fedfv"
    paper: ClassVar[str] = "Wang et al., IJCAI 2021"
    discloses: ClassVar[tuple[str, ...]] = ("its loss under the global model",)
    probes: ClassVar[tuple[str, ...]] = ("loss",)

    alpha: float = 0.1
    tau: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InputError(f"alpha of fedfv is a share of clients from 0 to 1, not {self.alpha}")
        if self.tau < 0:
            raise InputError(f"tau of fedfv must be at least 0, not {self.tau}")

    def init_server(self, net: Net) -> Memory:
        nobody = torch.zeros(0, dtype=torch.int64)
        past = {k: net.initial[k].new_zeros(0, *net.initial[k].shape) for k in net.trainable}
        return {"round": torch.zeros((), dtype=torch.int64), "ids": nobody, "seen": nobody, "gradients": past}

    def merge(
        self, params: Tree, update: Update, memory: Memory, trainable: tuple[str, ...]
    ) -> tuple[Tree, Memory]:
        now, here = int(memory["round"]), len(update)
        present = torch.from_numpy(update.clients)
        kept = ((memory["seen"] >= now - self.tau) & ~torch.isin(memory["ids"], present)).nonzero()[:, 0]
        past = rows({k: memory["gradients"][k] for k in trainable}, kept)
        ago = now - memory["seen"][kept]
        deltas = {k: update.params[k] - update.base[k] for k in trainable}
        joined = join([deltas, past])
        plain = torch.full((here,), 1 / here, dtype=torch.float64)
        mix = self._mixed(_products(joined), update.probes["loss"], ago, now)
        if mix is None:
            step = update.weighted_delta(plain)
        else:
            step = update.weighted_delta(plain, [k for k in params if k not in trainable])
            step |= weighted_sum(joined, mix)
        ids = torch.cat([present, memory["ids"][kept]])
        seen = torch.cat([torch.full_like(present, now), now - ago])
        remembered = slice(None) if self.tau else slice(0)
        return step, {
            "round": memory["round"] + 1,
            "ids": ids[remembered],
            "seen": seen[remembered],
            "gradients": {k: joined[k][remembered] for k in trainable},
        }

    def _mixed(self, products: Tensor, losses: Tensor, ago: Tensor, now: int) -> Tensor | None:
        """What every gradient, past ones last, counts in the step; None where none conflicts."""
        here, total = len(losses), len(products)
        order = torch.argsort(losses, stable=True).tolist()
        # the reference's rounding of "the alpha share"; a hair off so that 10 x 0.9 is 9
        spared = order[math.ceil((here - 1) * (1 - self.alpha) - 1e-9) :] if self.alpha else []
        own = torch.eye(total, dtype=torch.float64)[:here]
        for k in (k for k in range(here) if k not in spared):
            for i in (i for i in order if i != k):
                against = own[k] @ products[i]
                if against < 0:
                    own[k, i] -= against / products[i, i]
        mean = own.mean(0)
        for i in range(self.tau, 0, -1) if now >= self.tau else ():
            at = (ago == i).nonzero()[:, 0] + here
            conflicting = torch.zeros(total, dtype=torch.float64)
            conflicting[at[(products[at] @ mean) < 0]] = 1.0
            against, square = mean @ products @ conflicting, conflicting @ products @ conflicting
            if against < 0:
                mean = mean - against / square * conflicting
        plain = torch.zeros(total, dtype=torch.float64)
        plain[:here] = 1 / here
        if torch.equal(mean, plain):
            return None
        length, usual = mean @ products @ mean, plain @ products @ plain
        if length <= NOISE * usual:  # gradients that cancel: what is left points nowhere
            return torch.zeros(total, dtype=torch.float64)
        return mean * torch.sqrt(usual / length)


def _products(gradients: Tree) -> Tensor:
    """The inner products of all rows, in float64."""
    # a weight may be one number, and then its rows have no axis to flatten
    flat = [g.reshape(len(g), g[:1].numel()).double() for g in gradients.values()]
    return sum(((g @ g.T).cpu() for g in flat), torch.zeros(len(flat[0]), len(flat[0]), dtype=torch.float64))

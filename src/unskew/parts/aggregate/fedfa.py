"""Weights from accuracy and frequency, and a server momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.core.slots import Aggregate
from unskew.core.types import Memory, Tree, Update
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass(frozen=True)
class FedFA(Aggregate):
    """Gives clients that fit badly or take part often a larger weight (Huang et al., 2020; Information Sciences 2022).

    A_i is the accuracy of the global model on the data of client i, and f_i how often it took part, each as a share of
    the cohort's sum. Then weight_i = (1 - beta) I(A)_i + beta I(f)_i, where I(A)_i = -log2(A_i + 1e-6) and I(f)_i =
    -log2(1 - f_i + 1e-5), each divided by its sum. With w' = sum of weight_i w_i, m <- gamma m + (1 - gamma)(w' - w)
    and w <- w' - eta m.

    beta: the share of the frequency. gamma: the momentum. eta: the step along it, by default the clients' learning
    rate. Defaults and epsilons are those of the reference code (FLGo, not the authors'), where clients also train with
    momentum gamma: run it with ``--momentum 0.9``. The SEM paper's setting is ``fedfa(beta=1, gamma=0)``, which weighs
    by frequency alone, with momentum 0.

    A client's f grows by one with each upload that lands. SEM's authors count a half for each half trained: the same
    where every client trains both, as pairs that swap do.
    """

    name: ClassVar[str] = "fedfa"
    paper: ClassVar[str] = "Huang et al., Information Sciences 2022"
    discloses: ClassVar[tuple[str, ...]] = ("the global model's accuracy on its data",)
    probes: ClassVar[tuple[str, ...]] = ("accuracy",)

    beta: float = 0.5
    gamma: float = 0.9
    eta: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.beta <= 1:
            raise InputError(f"beta of fedfa is a share from 0 to 1, not {self.beta}")
        if not 0 <= self.gamma < 1:
            raise InputError(f"gamma of fedfa must be at least 0 and below 1, not {self.gamma}")
        if self.eta is not None and self.eta < 0:
            raise InputError(f"eta of fedfa must be at least 0, not {self.eta}")

    def init_server(self, net: Net) -> Memory:
        nobody = torch.zeros(0, dtype=torch.int64)
        momentum = {k: torch.zeros_like(net.initial[k]) for k in net.trainable}
        return {"ids": nobody, "times": nobody, "momentum": momentum}

    def merge(
        self, params: Tree, update: Update, memory: Memory, trainable: tuple[str, ...]
    ) -> tuple[Tree, Memory]:
        ids, places = np.unique(np.concatenate([memory["ids"].numpy(), update.clients]), return_inverse=True)
        known = len(memory["ids"])
        times = np.bincount(places[:known], memory["times"].numpy(), len(ids)).astype(np.int64)
        times += np.bincount(places[known:], minlength=len(ids))
        often = torch.from_numpy(times[places[known:]]).double()
        weights = self.beta * _information(1 - _shares(often), 1e-5)
        weights += (1 - self.beta) * _information(_shares(update.probes["accuracy"]), 1e-6)
        step = update.weighted_delta(weights)
        eta = float(update.lr.mean()) if self.eta is None else self.eta
        before: Tree = memory["momentum"]
        momentum = {k: self.gamma * before[k].double() + (1 - self.gamma) * step[k] for k in trainable}
        step |= {k: step[k] - eta * m for k, m in momentum.items()}
        kept = {k: m.to(before[k].dtype) for k, m in momentum.items()}
        counted = {"ids": torch.from_numpy(ids), "times": torch.from_numpy(times)}
        return step, counted | {"momentum": kept}


def _shares(values: Tensor) -> Tensor:
    """Values as shares of their sum; equal ones where all are 0."""
    total = values.sum()
    return values / total if total > 0 else torch.full_like(values, 1 / len(values))


def _information(shares: Tensor, eps: float) -> Tensor:
    """-log2 of shares, divided by its sum."""
    bits = -torch.log2(shares + eps)
    return bits / bits.sum()

"""A pull towards the global model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.core.slots import Depends, Exchange, Step
from unskew.core.types import Memory, Tree, Update
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass(frozen=True)
class FedProx(Exchange):
    """Pulls a client's model towards the global one (Li et al., MLSys 2020).

    A client minimises F_k(w) + mu/2 ||w - w_t||^2 (eq. 2), with w_t the global model of the round: under SEM in every
    half, under Phase-shift the newest one it was sent.

    mu: mu of eq. 2; by default 0.01, the SEM paper's (the authors' grid is 0.001 to 1, SEM's code has 0.1).
    adaptive: the authors' heuristic instead of a fixed mu; ``mu`` is then where it starts (by default at 0). It grows
    by 0.1 when the global loss rises. It shrinks by 0.1, not below 0, when the loss has fallen five rounds in a row.
    The paper does not say where that loss is measured. Here it is the loss of the model that a round began with, on the
    data of those who answer, weighted by their samples.
    """

    name: ClassVar[str] = "fedprox"
    paper: ClassVar[str] = "Li et al., MLSys 2020"
    neutral: ClassVar[str | None] = "fedprox(mu=0)"
    discloses: ClassVar[Any] = Depends(
        (), lambda part: ("its loss under the global model",) if part.adaptive else ()
    )
    probes: ClassVar[Any] = Depends((), lambda part: ("loss",) if part.adaptive else ())
    step_size: ClassVar[float] = 0.1
    patience: ClassVar[int] = 5

    mu: float | None = None
    adaptive: bool = False

    def __post_init__(self) -> None:
        if self.mu is not None and self.mu < 0:
            raise InputError(f"mu of fedprox must be at least 0, not {self.mu}")

    @property
    def start(self) -> float:
        """The mu of the first round."""
        return self.mu if self.mu is not None else 0.0 if self.adaptive else 0.01

    def penalty(self, step: Step) -> Tensor | float:
        if self.start == 0 and not self.adaptive:
            return 0.0
        mu = step.shared["mu"] if self.adaptive else self.start
        drift = sum((p - step.anchor[k]).square().sum() for k, p in step.params.items())
        return mu / 2 * drift

    def proximal_mu(self, shared: Tree, mine: Memory) -> float:
        return float(shared["mu"]) if self.adaptive else self.start

    def init_server(self, net: Net) -> Memory:
        if not self.adaptive:
            return {}
        values = {"mu": self.start, "loss": float("inf"), "falls": 0.0}
        return {k: torch.tensor(v, dtype=torch.float64) for k, v in values.items()}

    def hand_out(self, memory: Memory, t: int) -> Tree:
        return {"mu": memory["mu"].to(torch.float32)} if self.adaptive else {}

    def absorb(self, memory: Memory, update: Update, clients: int) -> Memory:
        if not self.adaptive or not update.examples.sum():
            return memory
        mu, before, falls = (float(memory[k]) for k in ("mu", "loss", "falls"))
        loss = float((update.probes["loss"] * update.examples).sum() / update.examples.sum())
        if loss > before:
            mu, falls = mu + self.step_size, 0.0
        elif loss < before and before != float("inf"):
            falls += 1
        if falls == self.patience:
            mu, falls = mu - self.step_size, 0.0
        # tenths, so that going up and down again ends where it began
        values = {"mu": max(0.0, round(mu, 9)), "loss": loss, "falls": falls}
        return {k: torch.tensor(v, dtype=torch.float64) for k, v in values.items()}

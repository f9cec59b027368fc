"""The aggregate as it is, or a share or a multiple of the way to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.core.slots import Advance
from unskew.core.types import Memory, Tree, moved_by
from unskew.errors import InputError


@dataclass(frozen=True)
class ServerSGD(Advance):
    """Steps eta times the change: at eta = 1 the next model is the aggregate as it is (Reddi et al., ICLR 2021).

    w <- w + eta Delta, algorithm 1 of the paper with SGD at the server. It is what a method does that names nothing
    else here.

    eta: the server's step size.
    """

    name: ClassVar[str] = "server_sgd"
    paper: ClassVar[str] = "Reddi et al., ICLR 2021"
    neutral: ClassVar[str | None] = "server_sgd(eta=1)"

    eta: float = 1.0

    def __post_init__(self) -> None:
        if self.eta <= 0:
            raise InputError(f"eta of server_sgd must be above 0, not {self.eta}")

    def step(self, params: Tree, change: Tree, memory: Memory) -> tuple[Tree, Memory]:
        step = change if self.eta == 1 else {k: self.eta * v for k, v in change.items()}
        return moved_by(params, step), memory

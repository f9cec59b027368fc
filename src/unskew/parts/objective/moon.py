"""Features near the global model's, and away from the client's last ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from unskew.core.slots import Exchange, Needs, Step, Visit
from unskew.core.types import Memory, Tree
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


@dataclass(frozen=True)
class MOON(Exchange):
    """Contrasts a client's features with those of the global and of its own last model (Li et al., CVPR 2021).

    A client minimises CE + mu l_con (eq. 4), with z, z_g and z_p the features of a sample under the model it trains,
    the global one and the one it uploaded last, sim the cosine, and (eq. 3)
    l_con = -log(exp(sim(z, z_g) / tau) / (exp(sim(z, z_g) / tau) + exp(sim(z, z_p) / tau))).

    mu: 1, the authors' default (they used 5 on CIFAR-10; others 0.1 to 5). tau: 0.5.

    Features are those the classifier sees. The authors' network has a projection head of two layers to 256
    dimensions before its classifier: that is a property of the model (``moon_cnn`` has it), and other models are
    contrasted on their own penultimate features, as elsewhere. Left open, and taken: a client without a last model
    has no contrast; both older models are judged with their own batch statistics and without dropout.
    """

    name: ClassVar[str] = "moon"
    paper: ClassVar[str] = "Li et al., CVPR 2021"
    neutral: ClassVar[str | None] = "moon(mu=0)"
    needs: ClassVar[Needs] = Needs(features=True, global_answers=True)

    mu: float = 1.0
    tau: float = 0.5

    def __post_init__(self) -> None:
        if self.mu < 0:
            raise InputError(f"mu of moon must be at least 0, not {self.mu}")
        if self.tau <= 0:
            raise InputError(f"tau of moon is a temperature above 0, not {self.tau}")

    def init_client(self, net: Net, size: float) -> Memory:
        if self.mu == 0:
            return {}
        first = net.initial[net.trainable[0]]
        return {"met": torch.zeros((), dtype=first.dtype), "last": _own(net, net.initial)}

    def penalty(self, step: Step) -> Tensor | float:
        if self.mu == 0:
            return 0.0
        layer, x = step.net.training.last_layer, step.batch.x
        here = step.features()
        near, far = (
            torch.cosine_similarity(here, step.net.judge(model, x, upto=layer).flatten(1), dim=1)
            for model in (step.anchor, step.mine["last"])
        )
        met: Tensor = step.mine["met"]
        return self.mu * met * step.batch.mean(torch.nn.functional.softplus((far - near) / self.tau))

    def report(self, visit: Visit) -> tuple[Tree, Memory]:
        if self.mu == 0:
            return {}, {}
        return {}, {"met": torch.ones_like(visit.mine["met"]), "last": _own(visit.net, visit.end)}


def _own(net: Net, model: Tree) -> Tree:
    """A model as a client remembers it: what the network itself is made of, without other parts' heads."""
    return {k: v for k, v in model.items() if k in net.own or k in net.buffers}

"""A loss in which rare classes count as much as frequent ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Depends, Exchange, Needs, Step
from unskew.core.types import Memory, Tree
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net
    from unskew.core.query import ClientView
    from unskew.core.questions import Questions
    from unskew.core.roster import Roster


@dataclass(frozen=True)
class Balanced(Exchange):
    """Weighs each sample's cross-entropy by how rare its class is (King and Zeng, Political Analysis 2001).

    A client minimises the mean over its samples of w_y CE, with w_c = n_c^(-power) n / (sum over j of n_j^(1 - power)):
    at power 1, n / (m n_c) for m classes that are there, which is scikit-learn's ``balanced``. The mean weight over the
    counted samples is 1, so the learning rate keeps its meaning; a batch is divided by its samples, not by their
    weights. With soft labels each class's share is weighed: -sum over c of w_c y_c log p_c.

    power: 1 makes all classes count the same, 0 is plain cross-entropy; 0.5 is a usual compromise where a rare class
    would get too large a weight.
    counts: whose n_c. ``client`` takes the client's own, which stay with it: what is rare here is weighed up here. A
    class that it lacks has weight 0, so with parts that train on others' labels (FedMix, FLea) write ``global``.
    ``global`` takes the sum over all clients: every client tells its label counts once, before round 0, and gets the
    sum with the model.

    It changes the task's loss alone, also after FedLC or FedRS have changed the logits; what other parts add to the
    loss is not weighed (FedMix's slope is: it is of the task's loss).
    """

    name: ClassVar[str] = "balanced"
    needs: ClassVar[Needs] = Needs(global_model=False)
    paper: ClassVar[str] = "King and Zeng, Political Analysis 2001"
    neutral: ClassVar[str | None] = "balanced(power=0)"
    questions: ClassVar[tuple[str, ...]] = ("label_counts",)
    discloses: ClassVar[Any] = Depends((), lambda part: (LABEL_COUNTS,) if part.exchanges else ())

    counts: Literal["client", "global"] = "client"
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.power <= 1:
            raise InputError(
                f"power of balanced must be from 0, which weighs nothing, to 1, not {self.power}"
            )

    @property
    def own_labels_only(self) -> str:
        return "balanced(counts=global)" if self.counts == "client" and self.power else ""

    @property
    def exchanges(self) -> bool:
        return self.counts == "global" and self.power > 0

    def begin(self, net: Net, roster: Roster, query: Questions, seed: int) -> Memory:
        if not self.exchanges:
            return {}
        told = query(self, "label_counts", roster.ids)
        return {"told": torch.stack([one["counts"] for one in told]), "owner": torch.arange(roster.clients)}

    def label_counts(self, client: ClientView) -> Tree:
        """A client's: how many samples of each class it holds."""
        return {"counts": torch.from_numpy(client.held.counts.astype(np.int32))}

    def hand_out(self, memory: Memory, t: int) -> Tree:
        return {"counts": memory["told"].sum(0).to(torch.float32)} if memory else {}

    def class_weights(self, step: Step) -> Tensor | None:
        if not self.power:
            return None
        assert step.out is not None
        counted = step.census if self.counts == "client" else step.shared["counts"]
        counted = counted.to(step.out.logits)
        held = counted > 0
        rarity = torch.where(held, counted, 1.0).pow(-self.power)
        total = torch.where(held, counted * rarity, 0.0).sum()
        return torch.where(held, rarity * (counted.sum() / total.clamp_min(1e-30)), 0.0)

"""The largest numbers of an update alone, and the rest another time."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.core.slots import Upload
from unskew.core.types import Memory, Shape, Tree
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net

PLACES = "places of "


@dataclass(frozen=True)
class TopK(Upload):
    """Uploads the share of an update that is largest, and remembers the rest for the next time (Stich et al., 2018).

    Of the n numbers of a model's change, all weights together, the k = ceil(share n) largest in magnitude are sent.
    Each goes with its place in its tensor: 4 bytes for the number (8 in float64) and 4 for the place, so 8 k bytes.
    With feedback a client adds what it did not send to its next change before it chooses again (algorithm 1, the memory
    m). So small changes that agree are sent in the end.

    share: the share of numbers that is sent, above 0; 1 sends the model as it is and is FedAvg bit for bit.
    feedback: whether clients remember what they did not send. It is kept only when an upload lands.

    Left open, and taken: a client's memory waits until it is selected again, however long that is. Where a model was
    handed over (SEM), the client that uploads it remembers the rest. Equal magnitudes go by place; float64 numbers are
    compared in float32, so that a difference of rounding decides nothing.
    """

    name: ClassVar[str] = "topk"
    paper: ClassVar[str] = "Stich et al., NeurIPS 2018"
    neutral: ClassVar[str | None] = "topk(1)"
    example: ClassVar[str | None] = "topk(0.1)"

    share: float
    feedback: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise InputError(
                f"share of topk is a share of an update's numbers, above 0 and up to 1, not {self.share}"
            )

    @property
    def encodes(self) -> bool:
        return self.share < 1

    def init_client(self, net: Net) -> Memory:
        if not (self.feedback and self.encodes):
            return {}
        return {"unsent": {k: torch.zeros_like(net.initial[k]) for k in net.trainable}}

    def encode(self, change: Tree, memory: Memory, rng: np.random.Generator) -> tuple[Tree, Memory]:
        if self.feedback:
            change = {k: v + memory["unsent"][k] for k, v in change.items()}
        kept = largest(torch.cat([v.flatten() for v in change.values()]), self.share)
        message: Tree = {}
        unsent: Tree = {}
        at = 0
        for name, value in change.items():
            flat = value.flatten()
            here = kept[(kept >= at) & (kept < at + len(flat))] - at
            message[name], message[PLACES + name] = flat[here], here.to(torch.int32)
            unsent[name] = flat.index_fill(0, here, 0.0).view(value.shape)
            at += len(flat)
        return message, {"unsent": unsent} if self.feedback else {}

    def decode(self, message: Tree, shapes: Mapping[str, Shape]) -> Tree:
        found = {}
        for name, shape in shapes.items():
            sent = message[name]
            flat = sent.new_zeros(math.prod(shape))
            flat[message[PLACES + name].long()] = sent
            found[name] = flat.view(shape)
        return found


def largest(values: Tensor, share: float) -> Tensor:
    """The places of the largest magnitudes, ascending: a share of them, at least one; ties go to the first."""
    count = max(1, math.ceil(share * len(values) - 1e-9))  # a hair off, so that 0.1 of 30 is 3
    size = values.abs().float().nan_to_num(nan=math.inf, posinf=math.inf)  # what is no number must be seen
    threshold = size.topk(count).values[-1]
    above = (size > threshold).nonzero()[:, 0]
    ties = (size == threshold).nonzero()[: count - len(above), 0]
    return torch.cat([above, ties]).sort().values

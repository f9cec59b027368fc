"""Rare classes repeated, client by client, less and less as rounds go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from unskew.data.dataset import Array
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.parts import Prepare
from unskew.seeds import generator
from unskew.types import Ids, Tree

if TYPE_CHECKING:
    from unskew.net import Net


@dataclass(frozen=True)
class Oversample(Prepare):
    """Lifts every class that a client holds towards its mean class, by repeating samples (Seol & Kim, algorithm 1).

    In round r = 0, 1, 2, ... client k repeats samples, drawn at random, of each class it holds until the class has
    t_k e^(-delta r) of them, t_k = the mean of its counts over all classes. After a round the server adds
    ``increment`` to delta where the repeated samples of those who took part were more than ``threshold`` of their own.

    delta: the exponent of the first round. increment: Delta. threshold: theta_over, a share of the cohort's data.

    Repeated samples count: an epoch is longer by them, and the update weighs more. A client with one class holds more
    than its mean of it, and is left as it is; so is a class that a client lacks. delta is all that is remembered. No
    sample is copied: a client's list names it more than once.
    """

    name: ClassVar[str] = "oversample"
    paper: ClassVar[str] = "Seol & Kim, Sensors 2023, algorithm 1"
    discloses: ClassVar[tuple[str, ...]] = ("how many samples it repeats",)
    tells: ClassVar[int] = 1

    delta: float = 0.01
    increment: float = 0.1
    threshold: float = 0.1

    def __post_init__(self) -> None:
        for field in ("delta", "increment", "threshold"):
            if not 0 <= getattr(self, field) < float("inf"):
                raise InputError(f"{field} of oversample must be 0 or more, not {getattr(self, field)}")

    def init_server(self, net: Net) -> Tree:
        return {"delta": torch.tensor(self.delta, dtype=torch.float64)}

    def each(self, t: int, federation: Federation, memory: Tree, seed: int) -> tuple[Federation, Tree]:
        lifted = additions(federation.counts, float(np.exp(-float(memory["delta"]) * t)))
        return repeated(federation, lifted, generator(seed, "oversample", t)), memory

    def learn(
        self, clients: Ids, before: Federation, after: Federation, memory: Tree
    ) -> tuple[Tree, Mapping[str, Any]]:
        """The server's half: delta for the next round, by the repeated share of this round's clients."""
        own = int(before.sizes[clients].sum())
        more = int(after.sizes[clients].sum()) - own
        share, delta = more / max(1, own), memory["delta"]
        told = {"oversample": {"delta": float(delta), "repeated": more, "share": share}}
        return {"delta": delta + self.increment if share > self.threshold else delta}, told


def additions(counts: Array, decay: float) -> Array:
    """How many samples of each class each client repeats: held classes are lifted to ``decay`` of its mean class."""
    level = np.ceil(counts.sum(1, keepdims=True) / counts.shape[1] * decay - 1e-9)
    return np.where(counts > 0, np.maximum(0, level - counts), 0).astype(np.int64)


def repeated(federation: Federation, more: Array, rng: np.random.Generator) -> Federation:
    """The federation with ``more[k, c]`` samples of class c of client k named again, drawn with replacement."""
    added = more.sum(1)
    clients = np.flatnonzero(added)
    if not len(clients):
        return federation
    sizes = federation.sizes[clients]
    # the places of these clients' samples in the list of all, and which client's which class each of them is
    places = np.arange(sizes.sum()) + np.repeat(
        federation.offsets[clients] - (np.cumsum(sizes) - sizes), sizes
    )
    copies = more[clients].ravel()
    labels = federation.dataset.y[federation.indices[places]]
    cell = np.repeat(np.arange(len(clients)) * more.shape[1], sizes) + labels
    places, cell = places[copies[cell] > 0], cell[copies[cell] > 0]
    by_cell = places[np.argsort(cell, kind="stable")]
    held = np.bincount(cell, minlength=len(copies))
    first = np.repeat(np.cumsum(held) - held, copies)
    chosen = by_cell[first + (rng.random(len(first)) * np.repeat(held, copies)).astype(np.int64)]
    grown = replace(
        federation,
        indices=np.insert(
            federation.indices, np.repeat(federation.offsets[1:], added), federation.indices[chosen]
        ),
        offsets=federation.offsets + np.concatenate([[0], np.cumsum(added)]),
        budget=federation.budget + added,
        weigh=federation.weigh + added,
    )
    vars(grown)["counts"] = federation.counts + more  # known: counting a large federation again takes longest
    return grown

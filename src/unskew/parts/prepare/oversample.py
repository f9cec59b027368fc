"""Rare classes repeated, client by client, less and less as rounds go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.core.held import Held, Numbers
from unskew.core.roster import Roster
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Prepare
from unskew.core.types import Ids, Memory
from unskew.errors import InputError
from unskew.later import torch
from unskew.parts.prepare.repeats import RunningSums, additions
from unskew.seeds import generator, skip

if TYPE_CHECKING:
    from unskew.core.net import Net


@dataclass(frozen=True)
class Oversample(Prepare):
    """Lifts every class that a client holds towards its mean class, by repeating samples (Seol & Kim, algorithm 1).

    In round r = 0, 1, 2, ... client k repeats samples, drawn at random, of each class it holds until the class has
    t_k e^(-delta r) of them, t_k = the mean of its counts over all classes. After a round the server adds
    ``increment`` to delta where the repeated samples of those who took part were more than ``threshold`` of their own.

    delta: the exponent of the first round. increment: Delta. threshold: theta_over, a share of the cohort's data.

    Repeated samples count: an epoch is longer by them, and the update weighs more. A client with one class holds more
    than its mean of it, and is left as it is; so is a class that a client lacks. delta is all that is remembered. No
    sample is copied: a client's list names it more than once. Where label counts are given, the server reckons from
    them which random numbers are a client's; without them a client draws by itself, and other samples are repeated.
    """

    name: ClassVar[str] = "oversample"
    paper: ClassVar[str] = "Seol & Kim, Sensors 2023, algorithm 1"
    discloses: ClassVar[tuple[str, ...]] = ("how many samples it repeats", LABEL_COUNTS)
    tells: ClassVar[int] = 1
    reweighs: ClassVar[bool] = True

    delta: float = 0.01
    increment: float = 0.1
    threshold: float = 0.1

    def __post_init__(self) -> None:
        for field in ("delta", "increment", "threshold"):
            if not 0 <= getattr(self, field) < float("inf"):
                raise InputError(f"{field} of oversample must be 0 or more, not {getattr(self, field)}")

    def init_server(self, net: Net) -> Memory:
        return {"delta": torch.tensor(self.delta, dtype=torch.float64)}

    # --- the server

    def expect(self, roster: Roster, t: int | None, memory: Memory) -> Roster:
        if t is None or not roster.counted:
            return roster
        decay = self._decay(t, memory)
        return roster.lifted((self.name, decay), lambda counts: additions(counts, decay), counted=True)

    def hand_out(self, clients: Ids, t: int, roster: Roster, memory: Memory) -> Numbers:
        told = {"decay": np.full(len(clients), self._decay(t, memory))}
        if not roster.counted:
            return told
        # a simulation draws all clients' repeats from one stream, each from where the one before it ends
        sums = roster.derive(self.name, lambda: RunningSums.of(roster))
        return told | {"skip": sums.before(clients, float(told["decay"][0]) if len(clients) else 1.0, roster)}

    def learn(
        self, held: Mapping[int, int], roster: Roster, memory: Memory
    ) -> tuple[Memory, Mapping[str, Any]]:
        """delta for the next round, by the repeated share of this round's clients."""
        own = int(roster.sizes[np.array(sorted(held), np.int64)].sum())
        more = sum(held.values()) - own
        share, delta = more / max(1, own), memory["delta"]
        told = {"oversample": {"delta": float(delta), "repeated": more, "share": share}}
        return {"delta": delta + self.increment if share > self.threshold else delta}, told

    def _decay(self, t: int, memory: Memory) -> float:
        return float(np.exp(-float(memory["delta"]) * t))

    # --- a client

    def view(self, held: Held, t: int | None, seed: int, **told: float) -> Held:
        if t is None:
            return held
        copies = additions(held.counts[None], told["decay"])[0]
        if "skip" in told:
            rng = generator(seed, "oversample", t)
            skip(rng, int(told["skip"]))
        else:
            rng = generator(seed, "oversample", t, held.client)
        members = (np.flatnonzero(held.labels == c) for c in range(len(copies)))
        chosen = [m[(rng.random(n) * len(m)).astype(np.int64)] for m, n in zip(members, copies, strict=True)]
        return held.repeating(np.concatenate(chosen)) if copies.any() else held

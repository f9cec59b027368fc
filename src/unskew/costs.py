"""What a round cost, counted where it happens: bytes by kind and direction, sample-steps, answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from unskew.types import Leg, Tree, Update, nbytes


@dataclass
class Costs:
    """One round's account. ``model`` is the bytes of what travels of a model."""

    model: int
    down: Counter[str] = field(default_factory=Counter)
    up: Counter[str] = field(default_factory=Counter)
    peer: Counter[str] = field(default_factory=Counter)
    sample_steps: int = 0
    asked: set[int] = field(default_factory=set)
    trained_only: set[int] = field(default_factory=set)  # trained, and were not to upload (yet)
    answered: int = 0
    notes: dict[str, Any] = field(default_factory=dict)

    def sent(self, leg: Leg, shared: Mapping[str, Tree]) -> None:
        """A leg was asked for: its models, and what parts share, travel to the clients."""
        if leg.source == "server":
            self.down["model"] += len(leg.clients) * self.model
            self._sent_along(len(leg.clients), shared)
        elif leg.source != "own":
            handed = leg.carry is None or leg.carry.clients != leg.clients  # the others go on with their own
            models = int(np.broadcast_to(handed, leg.clients.shape).sum()) * self.model
            if leg.source == "peer":
                self.peer["model"] += models
            else:
                self.up["model"] += models
                self.down["model"] += models
            strangers = len(set(leg.clients.tolist()) - self.asked)
            # whoever was not asked before lacks what parts share, and the global model that they measure drift by
            self.down["model"] += strangers * self.model * bool(shared)
            self._sent_along(strangers, shared)
        self.asked.update(leg.clients.tolist())
        self.trained_only.difference_update(leg.clients.tolist())

    def _sent_along(self, clients: int, shared: Mapping[str, Tree]) -> None:
        for part, tree in shared.items():
            if tree and clients:
                self.down[part] += clients * nbytes(tree)

    def received(self, leg: Leg, update: Update) -> None:
        """Clients answered: they trained, and where the leg says so their models and reports came up."""
        self.sample_steps += int(update.samples.sum())
        if leg.upload:
            self.up["model"] += len(update) * self.model
            for part, tree in update.uploads.items():
                if tree:
                    self.up[part] += nbytes(tree)
        else:
            self.trained_only.update(update.clients.tolist())

    def line(self) -> dict[str, Any]:
        """The fields of a log line."""
        kinds = {
            direction: dict(sorted(counted.items()))
            for direction, counted in (("down", self.down), ("up", self.up), ("peer", self.peer))
        }
        return {
            "bytes_down": self.down.total(),
            "bytes_up": self.up.total(),
            "bytes_peer": self.peer.total(),
            "bytes": kinds,
            "sample_steps": self.sample_steps,
            "asked": len(self.asked),
            "answered": self.answered,
            **({"trained_only": len(self.trained_only)} if self.trained_only else {}),
            **self.notes,
        }

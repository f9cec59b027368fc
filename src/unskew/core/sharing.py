"""Raw samples that move before round 0: who sends how many to whom. Which ones, the sender knows and nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

SERVER = -1
"""Stands for the server among senders and receivers."""

Counted = Literal["own", "held"]


@dataclass(frozen=True)
class Transfer:
    """Samples sent once, by one sender, to all its receivers together. The server hands on all that it was sent."""

    sender: int
    receivers: tuple[int, ...]
    samples: int
    seconds: float = 0.0  # on the air

    @property
    def way(self) -> Literal["down", "up", "peer"]:
        """From the server, to the server, or between clients."""
        if self.sender == SERVER:
            return "down"
        return "up" if SERVER in self.receivers else "peer"

    def said(self, clients: int) -> dict[str, Any]:
        """This transfer as the log tells it."""
        to = [_named(r) for r in self.receivers]
        return {
            "from": _named(self.sender),
            "to": "all" if len(to) == clients > 1 else to,
            "samples": self.samples,
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True)
class Sharing:
    """What one part of a method moves, how long that takes, and what the log says of it.

    A receiver's list goes on with what it was sent and did not hold. ``weigh`` and ``budget`` say whether an update's
    weight and a local epoch count the client's own samples alone or all that it holds then. ``pooled``: instead, all
    samples go to one client that spends this budget, of so many clients.
    """

    part: str
    transfers: tuple[Transfer, ...] = ()
    bits: int = 0  # of one sample with its label
    seconds: float = 0.0  # on the air, all transfers together
    weigh: Counted = "own"
    budget: Counted = "held"
    pooled: tuple[int, int] | None = None
    counts: int = 0  # bytes of the label counts that clients told the server beforehand
    report: Mapping[str, Any] = field(default_factory=dict)

    def bytes_of(self, transfer: Transfer) -> int:
        """What a transfer brings, counted once a receiver."""
        return len(transfer.receivers) * self.bytes_for(transfer.samples)

    def bytes_for(self, samples: int) -> int:
        """What so many samples take, sent together."""
        return -(-samples * self.bits // 8)


def _named(who: int) -> int | str:
    return "server" if who == SERVER else int(who)

"""Raw samples that move before round 0: who sent how many to whom, and the lists that grow by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from unskew.conditions import enforce, planned, silent
from unskew.data.dataset import Array
from unskew.data.federation import Federation

SERVER = -1
"""Stands for the server among senders and receivers."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """Samples sent once, by one sender, to all its receivers together."""

    sender: int
    receivers: tuple[int, ...]
    places: Array  # in the pool
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
            "samples": len(self.places),
            "seconds": round(self.seconds, 6),
        }


@dataclass(frozen=True, eq=False)
class Sharing:
    """What one part of a method moved, how long that took, and what the log says of it."""

    part: str
    transfers: tuple[Transfer, ...]
    bits: int  # of one sample with its label
    seconds: float  # on the air, all transfers together
    report: Mapping[str, Any]
    counts: int = 0  # bytes of the label counts that clients told the server beforehand

    def bytes_of(self, transfer: Transfer) -> int:
        """What a transfer brings, counted once a receiver."""
        return len(transfer.receivers) * -(-len(transfer.places) * self.bits // 8)


def grown(
    federation: Federation,
    transfers: Iterable[Transfer],
    weigh: Literal["own", "held"],
    budget: Literal["own", "held"],
) -> Federation:
    """The federation after these transfers: a receiver's list goes on with what it was sent and did not hold.

    ``weigh`` and ``budget`` say whether an update's weight and a local epoch count the client's own samples
    alone or all that it holds now.
    """
    extra: dict[int, list[Array]] = {}
    for transfer in transfers:
        for receiver in transfer.receivers:
            if receiver != SERVER:
                extra.setdefault(receiver, []).append(transfer.places)
    lists = [federation.samples(k) for k in range(federation.clients)]
    mine = np.zeros(len(federation.dataset), bool)
    for k, sent in extra.items():
        mine[lists[k]] = True
        held = lists[k]
        lists[k] = np.concatenate([held, *(places[~mine[places]] for places in sent)])
        mine[held] = False
    sizes = np.array([len(places) for places in lists], np.int64)
    more = sizes - federation.sizes
    return replace(
        federation,
        indices=np.concatenate(lists),
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        weigh=federation.weigh + more if weigh == "held" else federation.weigh,
        budget=federation.budget + more if budget == "held" else federation.budget,
    )


def told(federation: Federation, part: str) -> Mapping[str, Any]:
    """What the log says of a part's sharing."""
    return {s.part: s.report for s in federation.sharing if s.part == part}


def warn_of_silent(federation: Federation, least: int, how: str, instead: str) -> None:
    """Say how many clients hold too few samples to give any by ``how``, and what to write where all of them do."""
    enforce(silent(planned(federation), least, how, instead))


def _named(who: int) -> int | str:
    return "server" if who == SERVER else int(who)

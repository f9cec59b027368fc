"""A round's account of seconds on the air: whoever counts bytes also tells it who sent them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.arrays import Array
from unskew.core.types import Ids
from unskew.network.wireless import Way, Wireless

if TYPE_CHECKING:
    from unskew.core.roster import Roster
    from unskew.core.sharing import Sharing


@dataclass(eq=False)
class Air:
    """How long round ``t`` was on the air.

    Every client has a band of its own. So a round's transfers to clients last as long as those of the client that waits
    longest; likewise those from clients, and those between them. The three follow one another.
    """

    network: Wireless
    clients: int
    seed: int
    t: int
    shared: float = 0.0  # raw samples before round 0
    loads: dict[Way, Array] = field(default_factory=dict)  # way -> bits of each client
    waits: Array | None = None  # seconds until each client has what others handed it
    told: Counter[str] = field(default_factory=Counter)  # way -> bytes whose client is known

    def down(self, clients: Ids, sent: float) -> None:
        """``sent`` bytes from the base station to each of these clients."""
        self._by_base_station("down", clients, sent)

    def up(self, clients: Ids, sent: float | Array) -> None:
        """``sent`` bytes from each of these clients to the base station; or so many from each."""
        self._by_base_station("up", clients, sent)

    def peer(self, senders: Ids, receivers: Ids, sent: float) -> None:
        """``sent`` bytes from each sender to its receiver; by way of the base station where they have no link."""
        if self.network.round is None and len(senders):
            straight = self.network.link_seconds(
                8 * sent, senders, receivers, self.clients, self.seed, self.t
            )
            relayed = self._alone("up", senders, sent) + self._alone("down", receivers, sent)
            if self.waits is None:
                self.waits = np.zeros(self.clients)
            np.add.at(self.waits, receivers, np.where(np.isfinite(straight), straight, relayed))

    def samples(self, sharing: Sharing) -> None:
        """Raw samples were on the air before round 0."""
        self.shared += sharing.seconds
        for transfer in sharing.transfers:
            self.told[transfer.way] += sharing.bytes_of(transfer)

    @property
    def spent(self) -> dict[str, float]:
        """How long each way's transfers of known clients last."""
        found: dict[str, float] = {
            way: float(self._seconds(way, load).max()) for way, load in self.loads.items()
        }
        if self.waits is not None:
            found["peer"] = float(self.waits.max())
        return found

    @property
    def seconds(self) -> float:
        """All of them, way after way."""
        return sum(self.spent.values())

    def line(self, asked: Ids, down: float, up: float) -> dict[str, Any]:
        """The fields of a log line: all seconds, and what they were spent on.

        ``down`` and ``up`` are all bytes that were counted. Those of no client in particular (what selection took)
        are taken as spread evenly over the clients ``asked``.
        """
        totals: tuple[tuple[Way, float], ...] = (("down", down), ("up", up))
        for way, counted in totals:
            if len(asked) and (rest := counted - self.told[way]) > 0.5:
                self._by_base_station(way, asked, rest / len(asked))
        spent = (
            dict(sorted(self.spent.items())) if self.network.round is None else {"round": self.network.round}
        )
        if self.shared:
            spent["samples"] = self.shared
        return {
            "air_s": round(sum(spent.values()), 6),
            "air": {way: round(seconds, 6) for way, seconds in spent.items()},
        }

    def _by_base_station(self, way: Way, clients: Ids, sent: float | Array) -> None:
        if self.network.round is None and len(clients):
            self.told[way] += round(float(np.broadcast_to(sent, len(clients)).sum()))
            np.add.at(self.loads.setdefault(way, np.zeros(self.clients)), clients, 8 * sent)

    def _alone(self, way: Way, clients: Ids, sent: float) -> Array:
        """How long ``sent`` bytes would take each of these clients, if nothing else were sent."""
        bits = np.zeros(self.clients)
        bits[clients] = 8 * sent
        return self._seconds(way, bits)[clients]

    def _seconds(self, way: Way, bits: Array) -> Array:
        return self.network.server_seconds(bits, self.clients, self.seed, self.t, way)


def air_of(roster: Roster, seed: int, t: int) -> Air | None:
    """The account of a round, where the clients have a network; data that was pooled travels no more."""
    if roster.network is None or roster.pooled.any():
        return None
    return Air(roster.network, roster.clients, seed, t)

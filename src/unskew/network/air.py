"""A round's account of seconds on the air: whoever counts bytes also tells it who sent them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.data.dataset import Array
from unskew.network.wireless import Wireless
from unskew.types import Ids

if TYPE_CHECKING:
    from unskew.data.federation import Federation
    from unskew.data.sharing import Sharing


@dataclass(eq=False)
class Air:
    """How long round ``t`` was on the air.

    Every client has a band of its own, so a round's transfers to clients last as long as those of the client that
    waits longest, and likewise those from clients and between them; the three follow one another.
    """

    network: Wireless
    clients: int
    seed: int
    t: int
    shared: float = 0.0  # raw samples before round 0
    waits: dict[str, Array] = field(default_factory=dict)  # way -> seconds of each client
    told: Counter[str] = field(default_factory=Counter)  # way -> bytes whose client is known

    def down(self, clients: Ids, sent: float) -> None:
        """``sent`` bytes from the base station to each of these clients."""
        self._by_base_station("down", clients, sent)

    def up(self, clients: Ids, sent: float) -> None:
        """``sent`` bytes from each of these clients to the base station."""
        self._by_base_station("up", clients, sent)

    def peer(self, senders: Ids, receivers: Ids, sent: float) -> None:
        """``sent`` bytes from each sender to its receiver; by way of the base station where they have no link."""
        if self.network.round is None and len(senders):
            rates = self.network.link_rates(senders, receivers, self.clients, self.seed, self.t)
            relayed = 1 / self.base_station[senders] + 1 / self.base_station[receivers]
            self._add(
                "peer", receivers, 8 * sent * np.where(rates > 0, 1 / np.where(rates > 0, rates, 1), relayed)
            )

    def samples(self, sharing: Sharing) -> None:
        """Raw samples were on the air before round 0."""
        self.shared += sharing.seconds
        for transfer in sharing.transfers:
            self.told[transfer.way] += sharing.bytes_of(transfer)

    @cached_property
    def base_station(self) -> Array:
        """Bits a second between each client and the base station, this round."""
        return self.network.server_rates(self.clients, self.seed, self.t)

    @property
    def seconds(self) -> float:
        """How long the transfers of known clients last, way after way."""
        return sum(float(waits.max()) for waits in self.waits.values())

    def line(self, asked: Ids, down: float, up: float) -> dict[str, Any]:
        """The fields of a log line: all seconds, and what they were spent on.

        ``down`` and ``up`` are all bytes that were counted. Those of no client in particular (what selection took)
        are taken as spread evenly over the clients ``asked``.
        """
        for way, counted in (("down", down), ("up", up)):
            if len(asked) and (rest := counted - self.told[way]) > 0.5:
                self._by_base_station(way, asked, rest / len(asked))
        if self.network.round is not None:
            spent = {"round": self.network.round}
        else:
            spent = {way: float(waits.max()) for way, waits in sorted(self.waits.items())}
        if self.shared:
            spent["samples"] = self.shared
        return {
            "air_s": round(sum(spent.values()), 6),
            "air": {way: round(seconds, 6) for way, seconds in spent.items()},
        }

    def _by_base_station(self, way: str, clients: Ids, sent: float) -> None:
        if self.network.round is None and len(clients):
            self.told[way] += round(len(clients) * sent)
            self._add(way, clients, 8 * sent / self.base_station[clients])

    def _add(self, way: str, clients: Ids, seconds: Array) -> None:
        np.add.at(self.waits.setdefault(way, np.zeros(self.clients)), clients, seconds)


def air_of(federation: Federation, seed: int, t: int) -> Air | None:
    """The account of a round, where the federation has a network; data that was pooled travels no more."""
    if federation.network is None or federation.pooled.any():
        return None
    return Air(federation.network, federation.clients, seed, t)

"""Samples gathered at the server and handed to every client."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.held import Held
from unskew.core.roster import Roster
from unskew.core.sharing import SERVER, Counted, Sharing, Transfer
from unskew.core.types import Ids
from unskew.network import Wireless, multicast_delay
from unskew.parts.prepare.clustered import emds
from unskew.seeds import generator

RAW = ("raw samples to the server", "raw samples to every client")


def hand_round(
    roster: Roster,
    part: str,
    amounts: Array,
    seed: int,
    weigh: Counted,
    budget: Counted,
    reached: Array | None = None,
) -> Sharing | None:
    """Client k uploads ``amounts[k]`` of its samples, and the server sends all to all ``reached``.

    Collecting takes as long as the slowest upload, distributing as the slowest link (eq. 10).
    """
    givers = np.flatnonzero(amounts)
    if not len(givers):
        return None
    network, clients, bits = roster.network or Wireless(), roster.clients, roster.dataset.bits
    receivers = np.arange(clients) if reached is None else np.flatnonzero(reached)
    waits, pool = bits * amounts / network.server_rates(clients, seed, way="up"), int(amounts.sum())
    spread = multicast_delay(bits * pool, network.server_rates(clients, seed, way="down")[receivers])
    up = [Transfer(k, (SERVER,), int(amounts[k]), float(waits[k])) for k in givers.tolist()]
    transfers = (*up, Transfer(SERVER, tuple(receivers.tolist()), pool, spread))
    return Sharing(part, transfers, bits, float(waits.max()) + spread, weigh, budget)


def some_of(held: Held, part: str, samples: int, seed: int) -> Ids:
    """So many of a client's samples, drawn without replacement."""
    return generator(seed, part, held.client).permutation(len(held))[:samples]


def report(sharing: Sharing, before: Roster, after: Roster) -> dict[str, Any]:
    """What the log says of samples that were handed round."""
    *up, down = sharing.transfers
    found = {
        "collected": down.samples,
        **(
            {}
            if len(down.receivers) == before.clients
            else {"left_out": np.setdiff1d(before.ids, down.receivers).tolist()}
        ),
        "shared_samples": int(after.sizes.sum() - before.sizes.sum()),
        "collect_s": round(max(one.seconds for one in up), 6),
        "distribute_s": round(down.seconds, 6),
    }
    return found | emds(before, after)

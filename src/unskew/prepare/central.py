"""Samples gathered at the server and handed to every client."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from unskew.data.dataset import Array
from unskew.data.federation import Federation
from unskew.data.sharing import SERVER, Sharing, Transfer, grown
from unskew.network import Wireless, multicast_delay
from unskew.prepare.clustered import system_emds
from unskew.seeds import generator

RAW = ("raw samples to the server", "raw samples to every client")


def handed_round(
    federation: Federation,
    part: str,
    give: Array,
    seed: int,
    weigh: Literal["own", "held"],
    budget: Literal["own", "held"],
    reached: Array | None = None,
) -> Federation:
    """Client k uploads ``give[k]`` of its samples, drawn without replacement; the server sends all to all ``reached``.

    Collecting takes as long as the slowest upload, distributing as the slowest link (eq. 10).
    """
    network, clients, bits = federation.network or Wireless(), federation.clients, federation.dataset.bits
    receivers = np.arange(clients) if reached is None else np.flatnonzero(reached)
    givers = np.flatnonzero(give)
    drawn = {
        k: generator(seed, part, k).permutation(federation.samples(k))[: give[k]] for k in givers.tolist()
    }
    if not drawn:
        return federation
    waits = bits * give / network.server_rates(clients, seed, way="up")
    pool = np.concatenate(list(drawn.values()))
    spread = multicast_delay(bits * len(pool), network.server_rates(clients, seed, way="down")[receivers])
    up = [Transfer(k, (SERVER,), places, float(waits[k])) for k, places in drawn.items()]
    transfers = (*up, Transfer(SERVER, tuple(receivers.tolist()), pool, spread))
    after = grown(federation, transfers, weigh, budget)
    normalised, printed = system_emds(after.counts, federation.counts)
    report = {
        "collected": len(pool),
        **(
            {}
            if len(receivers) == clients
            else {"left_out": np.setdiff1d(np.arange(clients), receivers).tolist()}
        ),
        "shared_samples": int(after.sizes.sum() - federation.sizes.sum()),
        "collect_s": round(float(waits.max()), 6),
        "distribute_s": round(spread, 6),
        "emd_before": system_emds(federation.counts, federation.counts)[0],
        "emd_after": normalised,
        "emd_after_printed": printed,
    }
    sharing = Sharing(part, transfers, bits, float(waits.max()) + spread, report)
    return replace(after, sharing=(*federation.sharing, sharing))

"""Who has been given whose data: FLea's exchange matrix and its share of ones, eps(t)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unskew.core.types import Ids
from unskew.errors import InputError

SERVER = "server"
MOST_PAIRS = 200_000_000
"""Pairs of clients that are held at a time, 8 bytes each."""


def exposure(lines: Sequence[dict[str, Any]], clients: int) -> list[float]:
    """eps after each round of a log: the share of pairs (i, j) in which j was given something of i's data.

    FLea, section 4.4: xi[i, j] is 1 once client j has received what client i shared, and eps = sum(xi) / K^2.
    Pairs have a direction (only then does the paper's 40% after 50 rounds of a tenth of the clients come out:
    1 - 0.99^50), and a client that gets its own back counts, since FedData's eps is said to be 100%.
    """
    known, found, everything = np.zeros(0, np.int64), [], False
    for line in lines:
        for given in exchanges(line, clients):
            if given["from"] == "all" and given["to"] == "all":
                everything = True
            elif not everything:
                known = np.union1d(known, _pairs(given, clients))
        found.append(1.0 if everything else len(known) / clients**2)
    return found


def matrix(lines: Sequence[dict[str, Any]], clients: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """xi after the whole log: row i, column j is whether j was given something of i's data."""
    held = np.zeros((clients, clients), bool)
    for line in lines:
        for given in exchanges(line, clients):
            held[np.ix_(_ids(given["from"], clients), _ids(given["to"], clients))] = True
    return held


def exchanges(line: dict[str, Any], clients: int) -> Iterator[dict[str, Any]]:
    """Who gave to whom in a round: what parts handed out, and raw samples that moved before the first.

    Samples that a server gathered and handed on were given by whoever had sent them there.
    """
    yield from (line.get("exchanged") or {}).values()
    moved = line.get("shared") or []
    for part in dict.fromkeys(entry["part"] for entry in moved):
        own = [entry for entry in moved if entry["part"] == part]
        sent = sorted({entry["from"] for entry in own if entry["to"] == [SERVER]})
        for entry in own:
            if entry["from"] != SERVER and entry["to"] != [SERVER]:
                yield {"from": [entry["from"]], "to": entry["to"]}
            elif entry["from"] == SERVER and sent:
                yield {"from": "all" if len(sent) == clients else sent, "to": entry["to"]}


def expected(share: float, rounds: int) -> list[float]:
    """eps after each round where every round's clients, a share of all, get what the round before's shared."""
    return [1 - (1 - share**2) ** t for t in range(rounds)]


def _pairs(given: dict[str, Any], clients: int) -> Ids:
    givers, takers = _ids(given["from"], clients), _ids(given["to"], clients)
    if len(givers) * len(takers) > MOST_PAIRS:
        raise InputError(
            f"the exchange matrix of {clients:,} clients is too large to be held; attack a run of fewer clients"
        )
    return (givers[:, None] * clients + takers[None, :]).reshape(-1)


def _ids(who: Any, clients: int) -> Ids:
    return np.arange(clients) if who == "all" else np.asarray(who, np.int64)

"""Raw samples that a method moves before round 0, carried by the coordinator: who gives, and who is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.roster import Roster
from unskew.core.sharing import SERVER, Sharing
from unskew.core.types import Ids
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.sites.messages import BadMessage
from unskew.sites.samples import Samples
from unskew.sites.values import ids, sequence

Read = Callable[[str, Mapping[str, Any]], Any]
Ask = Callable[[str, dict[str, dict[str, Any]], Read], dict[str, Any]]
"""ask(verb, what each site is asked, how its answer is read): what every site answered."""


def gather_pool(ask: Ask, clients: Mapping[str, Ids], part: str, roster: Roster) -> Federation:
    """All samples of all sites as one client's, in the order of clients."""
    asked = {site: {"part": part, "clients": who, "counts": None} for site, who in clients.items()}
    given = ask("give", asked, lambda site, told: _given(told, len(clients[site]), roster.dataset))
    every = Samples.joined([one for site in clients for one in given[site]])
    return Federation(every.pooled(roster.dataset), np.arange(len(every)), np.array([0, len(every)]))


def move_samples(
    ask: Ask, clients: Mapping[str, Ids], part: str, sharing: Sharing, roster: Roster
) -> tuple[Array, Array | None]:
    """Carry out what a part declares; how many samples every client holds then, and of which classes."""
    home = {int(client): site for site, who in clients.items() for client in who}
    senders = [t for t in sharing.transfers if t.sender != SERVER]
    asked = {
        site: {
            "part": part,
            "clients": np.array([t.sender for t in senders if home[t.sender] == site], np.int64),
            "counts": np.array([t.samples for t in senders if home[t.sender] == site], np.int64),
        }
        for site in dict.fromkeys(home[t.sender] for t in senders)
    }
    given = ask("give", asked, lambda site, told: _given(told, len(asked[site]["clients"]), roster.dataset))
    rest = {site: iter(found) for site, found in given.items()}
    pieces: list[Samples] = []
    to: dict[str, dict[str, list[int]]] = {site: {} for site in clients}
    relayed: list[Samples] = []
    for transfer in sharing.transfers:
        piece = Samples.joined(relayed) if transfer.sender == SERVER else next(rest[home[transfer.sender]])
        for receiver in transfer.receivers:
            if receiver == SERVER:
                relayed.append(piece)
            else:
                to[home[receiver]].setdefault(str(receiver), []).append(len(pieces))
        pieces.append(piece)
    taken = ask(
        "take",
        {site: _wanted(pieces, to[site]) | {"counted": roster.counted} for site in clients},
        lambda site, told: _held(told, len(clients[site]), roster),
    )
    sizes = np.concatenate([taken[site][0] for site in clients])
    return sizes, np.concatenate([taken[site][1] for site in clients]) if roster.counted else None


def _wanted(pieces: list[Samples], to: dict[str, list[int]]) -> dict[str, Any]:
    """What one site is given: the pieces that its clients get, each once."""
    needed = sorted({piece for gifts in to.values() for piece in gifts})
    at = {piece: i for i, piece in enumerate(needed)}
    return {
        "pieces": [pieces[piece].as_dict() for piece in needed],
        "to": {client: [at[piece] for piece in gifts] for client, gifts in to.items()},
    }


def _given(told: Mapping[str, Any], senders: int, like: Dataset) -> list[Samples]:
    found = [Samples.read(one, like) for one in sequence(told, "given")]
    if len(found) != senders:
        raise BadMessage("it gives the samples of other clients than were asked")
    return found


def _held(told: Mapping[str, Any], clients: int, roster: Roster) -> tuple[Array, Array]:
    sizes, counts = ids(told, "sizes"), told.get("counts")
    if len(sizes) != clients or sizes.min() < 0:
        raise BadMessage("it holds samples of other clients than it has")
    if roster.counted and (
        not isinstance(counts, np.ndarray)
        or counts.shape != (clients, roster.dataset.classes)
        or counts.sum(1).tolist() != sizes.tolist()
    ):
        raise BadMessage("its label counts do not add up")
    return sizes, np.asarray(counts)

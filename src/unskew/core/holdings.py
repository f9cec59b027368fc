"""The clients' side: the samples of the clients that live here, and what each makes of its own.

A client sees its own samples and nothing else. What a method makes of them (repeated or altered samples) is a view. It
is made here when the client is visited, as a function of the seed, the round and the client, and forgotten afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from unskew.core.held import BEFORE, Held, Moment
from unskew.core.roster import Roster, without_pool, without_tests
from unskew.core.sharing import SERVER, Sharing
from unskew.core.slots import Prepare
from unskew.core.types import Ids
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation


class Holdings:
    """Samples, and which of them each client has: as dealt, and after raw samples were moved."""

    def __init__(self, federation: Federation, dealt: Federation | None = None):
        self.federation, self.dealt = federation, dealt or federation

    @property
    def dataset(self) -> Dataset:
        return self.federation.dataset

    @cached_property
    def about(self) -> Dataset:
        """What samples look like: what a client knows of the data set beside its own samples."""
        return without_tests(without_pool(self.dataset))

    def held(
        self, client: int, moment: Moment, roster: Roster, prepare: Iterable[Prepare], seed: int
    ) -> Held:
        """What a client has at hand at a moment."""
        if moment.own:
            lists = self.dealt if moment.aside is None else self.dealt.aside[moment.aside]
            places = lists.samples(client)
            return Held(client, len(places), len(places), self.about, places, self.dataset)
        counted = int(roster.budget[client]), int(roster.weigh[client])
        held = Held(client, *counted, self.about, self.federation.samples(client), self.dataset)
        for part in prepare:
            held = part.view(held, moment.t, seed, **moment.told_to(part.name, client))
        return held

    def transfer(self, part: Prepare, sharing: Sharing, roster: Roster, seed: int) -> Roster:
        """Carry out what a part declares, and tell the server how much everybody holds then."""
        if sharing.pooled is not None:
            everything = np.array([0, len(self.federation.indices)])
            self.federation = Federation(self.dataset, self.federation.indices, everything)
        else:
            self.federation = self._grown(part, sharing, roster, seed)
        after = self.federation
        return roster.after(sharing, after.sizes, after.take_census if roster.counted else None)

    def _grown(self, part: Prepare, sharing: Sharing, roster: Roster, seed: int) -> Federation:
        extra: dict[int, list[Ids]] = {}
        relayed: list[Ids] = []
        for transfer in sharing.transfers:
            if transfer.sender == SERVER:
                sent = np.concatenate(relayed)
            else:
                held = self.held(transfer.sender, BEFORE, roster, (), seed)
                sent = held.places[part.give(held, transfer.samples, seed)]
            for receiver in transfer.receivers:
                if receiver == SERVER:
                    relayed.append(sent)
                else:
                    extra.setdefault(receiver, []).append(sent)
        before = self.federation
        lists = [before.samples(k) for k in range(before.clients)]
        mine = np.zeros(len(self.dataset), bool)
        for k, gifts in extra.items():
            held_before = lists[k]
            mine[held_before] = True
            lists[k] = np.concatenate([held_before, *(places[~mine[places]] for places in gifts)])
            mine[held_before] = False
        sizes = np.array([len(places) for places in lists], np.int64)
        return Federation(self.dataset, np.concatenate(lists), np.concatenate([[0], np.cumsum(sizes)]))

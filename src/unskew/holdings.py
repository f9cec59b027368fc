"""The clients' side: the samples of the clients that live here, and what each makes of its own.

A client sees its own samples and nothing else. What a method makes of them (repeated or altered samples) is a view:
made here when the client is visited, as a function of the seed, the round and the client, and forgotten afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from unskew.data.dataset import Array, Dataset
from unskew.data.federation import Federation
from unskew.data.sharing import SERVER, Sharing
from unskew.types import Ids

if TYPE_CHECKING:
    from unskew.parts import Prepare
    from unskew.roster import Roster

Made = tuple[Array, Array]
"""Samples of a client's own making and their labels, as they lie in a data set."""

Numbers = Mapping[str, Array]
"""By name, one number a client: what a part of the server hands out for the clients' views."""


@dataclass(frozen=True)
class Moment:
    """Which of a client's data is meant: with the views of round ``t``, before the first round, or its own alone.

    ``own`` leaves out what it was sent. ``told`` is what parts handed out to ``clients`` for their views, by part.
    """

    t: int | None = None
    own: bool = False
    clients: Ids = field(default_factory=lambda: np.zeros(0, np.int64))
    told: Mapping[str, Numbers] = field(default_factory=dict)

    def told_to(self, part: str, client: int) -> dict[str, float]:
        """What a client was told by a part."""
        numbers = self.told.get(part)
        if not numbers:
            return {}
        row = int(np.flatnonzero(self.clients == client)[0])
        return {name: values[row].item() for name, values in numbers.items()}


OWN = Moment(own=True)
BEFORE = Moment()


@dataclass(frozen=True, eq=False)
class Held:
    """What one client has at hand: its samples, by their position in its own list, and what they count.

    ``budget`` is the size whose epochs it spends, ``weigh`` the size that its update weighs.
    """

    client: int
    budget: int
    weigh: int
    dataset: Dataset = field(
        repr=False
    )  # of all clients that live in this process: look at no place but one's own
    places: Ids = field(repr=False)  # in the data set; from its length on, of what the client made itself
    made: Made | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.places)

    @cached_property
    def labels(self) -> Array:
        """The class of each sample."""
        return self._values("y")

    @property
    def counts(self) -> Array:
        """How many of each class."""
        return np.bincount(self.labels, minlength=self.dataset.classes)

    def x(self, index: Array | None = None) -> Array:
        """Samples as they lie in a data set: all, or those at these positions of its list."""
        return self._values("x", index)

    def _values(self, name: str, index: Array | None = None) -> Array:
        places, pool = self.places if index is None else self.places[index], getattr(self.dataset, name)
        if self.made is None:
            return np.asarray(pool[places])
        own, made = places < len(self.dataset), self.made[0 if name == "x" else 1]
        found = np.empty((len(places), *pool.shape[1:]), pool.dtype)
        found[own], found[~own] = pool[places[own]], made[places[~own] - len(self.dataset)]
        return found

    def some(self, index: Array) -> Held:
        """The same client with these of its samples alone, which are all that it spends and weighs."""
        return replace(self, places=self.places[index], budget=len(index), weigh=len(index))

    def repeating(self, index: Array) -> Held:
        """With the samples at these positions once more each: they count in epochs and weight."""
        places = np.concatenate([self.places, self.places[index]])
        return replace(self, places=places, budget=self.budget + len(index), weigh=self.weigh + len(index))

    def adding(self, x: Array, y: Array) -> Held:
        """With samples of the client's own making, which change neither epochs nor weight."""
        before = 0 if self.made is None else len(self.made[1])
        made = (
            (x, y) if self.made is None else tuple(map(np.concatenate, zip(self.made, (x, y), strict=True)))
        )
        fresh = len(self.dataset) + before + np.arange(len(y))
        return replace(self, places=np.concatenate([self.places, fresh]), made=(made[0], made[1]))


class Holdings:
    """Samples, and which of them each client has: as dealt, and after raw samples were moved."""

    def __init__(self, federation: Federation, dealt: Federation | None = None):
        self.federation, self.dealt = federation, dealt or federation

    @property
    def dataset(self) -> Dataset:
        return self.federation.dataset

    def held(
        self, client: int, moment: Moment, roster: Roster, prepare: Iterable[Prepare], seed: int
    ) -> Held:
        """What a client has at hand at a moment."""
        if moment.own:
            places = self.dealt.samples(client)
            return Held(client, len(places), len(places), self.dataset, places)
        counted = int(roster.budget[client]), int(roster.weigh[client])
        held = Held(client, *counted, self.dataset, self.federation.samples(client))
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
        return roster.after(sharing, after.sizes, (lambda: after.counts) if roster.counted else None)

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

"""Raw samples on their way, with the sites' consent: from a site to the coordinator, and through it to other sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.held import BEFORE
from unskew.core.holdings import Holdings
from unskew.core.roster import Roster
from unskew.core.slots import Prepare
from unskew.core.types import Ids
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.files import write_file
from unskew.sites.messages import BadMessage, Message
from unskew.sites.values import ids, mapping, sequence


@dataclass(frozen=True)
class Samples:
    """Some samples, whose each is and which of its owner's: nobody is given again what it has."""

    x: Array
    y: Ids
    owner: Ids
    place: Ids

    def __len__(self) -> int:
        return len(self.y)

    def as_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @staticmethod
    def read(told: Any, like: Dataset) -> Samples:
        """From a message: samples that look as the run's do."""
        if not isinstance(told, dict) or not isinstance(x := told.get("x"), np.ndarray):
            raise BadMessage("samples have no values")
        y, owner, place = (ids(told, name) for name in ("y", "owner", "place"))
        if (
            x.shape != (len(y), *like.shape)
            or x.dtype != like.x.dtype
            or not len(y) == len(owner) == len(place)
        ):
            raise BadMessage("samples look unlike those of the run")
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            raise BadMessage("samples hold numbers that are not finite")
        if len(y) and not 0 <= y.min() <= y.max() < like.classes:
            raise BadMessage("samples are of classes that the run does not know")
        return Samples(x, y, owner, place)

    @staticmethod
    def joined(some: Sequence[Samples]) -> Samples:
        return Samples(*(np.concatenate([getattr(s, f.name) for s in some]) for f in fields(Samples)))

    def pooled(self, like: Dataset) -> Dataset:
        """The run's data set with these as its training samples."""
        return Dataset(
            like.name,
            self.x,
            self.y,
            like.x_test,
            like.y_test,
            like.labels,
            like.kind,
            mean=like.mean,
            std=like.std,
        )


class SharedSamples:
    """A run's samples at a site: what its clients give, and what others gave them, which outlives a restart."""

    def __init__(self, holdings: Holdings, folder: Path):
        self.holdings, self.folder = holdings, folder
        dealt, count = holdings.dealt, len(holdings.dataset)
        self.owner, self.place = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        sizes = np.diff(dealt.offsets)
        self.owner[dealt.indices] = np.repeat(np.arange(dealt.clients), sizes)
        self.place[dealt.indices] = np.arange(len(dealt.indices)) - np.repeat(dealt.offsets[:-1], sizes)

    def give(
        self, part: Prepare, clients: Ids, counts: Ids | None, roster: Roster, seed: int
    ) -> list[Samples]:
        """So many samples of each of these clients, which it chooses as the part says; all where none is told."""
        found = []
        for i, client in enumerate(clients.tolist()):
            held = self.holdings.held(client, BEFORE, roster, (), seed)
            at = held.places if counts is None else held.places[part.give(held, int(counts[i]), seed)]
            data = self.holdings.dataset
            found.append(
                Samples(np.asarray(data.x[at]), np.asarray(data.y[at]), self.owner[at], self.place[at])
            )
        return found

    def take(self, told: Mapping[str, Any]) -> None:
        """Add what others gave, and keep it on the disk."""
        self._add(told)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_file(self.folder / f"{len(self._files())}.samples", Message("take", dict(told)).encode())

    def restore(self) -> None:
        """What was taken before this process was started."""
        for path in self._files():
            self._add(Message.decode(path.read_bytes()).values)

    def forget(self) -> None:
        """The run begins anew, and so does what is given."""
        for path in self._files():
            path.unlink()

    def _files(self) -> list[Path]:
        return sorted(self.folder.glob("*.samples"), key=lambda path: int(path.stem))

    def _add(self, told: Mapping[str, Any]) -> None:
        before = self.holdings.federation
        data = before.dataset
        pieces = [Samples.read(one, data) for one in sequence(told, "pieces")]
        starts = np.cumsum([len(data), *(len(piece) for piece in pieces)])
        lists = [before.samples(k) for k in range(before.clients)]
        new = Samples.joined([Samples(data.x, data.y, self.owner, self.place), *pieces])
        for client, gifts in mapping(told, "to").items():
            k = int(client)
            mine = set(zip(self.owner[lists[k]].tolist(), self.place[lists[k]].tolist(), strict=True))
            for gift in gifts:
                places = np.arange(starts[gift], starts[gift + 1])
                named = zip(new.owner[places].tolist(), new.place[places].tolist(), strict=True)
                lists[k] = np.concatenate([lists[k], places[[one not in mine for one in named]]])
        pool = new.pooled(data)
        self.owner, self.place = new.owner, new.place
        offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])])
        self.holdings.federation = Federation(pool, np.concatenate(lists).astype(np.int64), offsets)

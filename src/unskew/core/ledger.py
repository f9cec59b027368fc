"""What a round cost, counted where it happens: bytes by kind and direction, sample-steps, answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.core.air import Air
from unskew.core.held import Numbers
from unskew.core.idle import Idle
from unskew.core.sharing import Sharing
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.types import Cohort, Ids, Leg, Tree, Update, nbytes
from unskew.core.visits import visit_told
from unskew.later import torch

if TYPE_CHECKING:
    from unskew.core.roster import Roster
    from unskew.core.slots import Part, Prepare

NUMBER_BYTES = 4
"""What one number takes on its way between a client and the server: a count of a class, for instance."""


@dataclass
class Ledger:
    """One round's account. ``model`` is the bytes of what travels of a model.

    Bytes are counted once a receiver; ``air``, where the run has a network, is told who sent them to whom.
    """

    model: int
    air: Air | None = None
    needs_global: bool = False  # whether the round's clients need the model that it began with
    down: Counter[str] = field(default_factory=Counter)
    up: Counter[str] = field(default_factory=Counter)
    peer: Counter[str] = field(default_factory=Counter)
    sample_steps: int = 0
    spent: Counter[int] = field(default_factory=Counter)  # client -> sample-steps
    held: dict[int, int] = field(default_factory=dict)  # client -> how many samples it had at hand
    drawn: dict[int, int] = field(default_factory=dict)  # client -> how many of them it trained from
    distinct: int = 0  # clients that have trained in this round or before
    asked: set[int] = field(default_factory=set)
    trained_only: set[int] = field(default_factory=set)  # trained, and were not to upload (yet)
    answered: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    given: dict[str, dict[str, Any]] = field(default_factory=dict)  # part -> whose data goes to whom
    # part -> bytes of what it told clients for their views
    views: Counter[str] = field(default_factory=Counter)
    viewing: set[int] = field(default_factory=set)  # clients that were told
    idle: Idle = field(default_factory=Idle)  # legs in which nobody trained
    # who trained in each leg, with loss and change
    visits: list[dict[str, Any]] = field(default_factory=list)

    def exchanges(self, parts: Iterable[Part], memory: Mapping[str, Tree], clients: int) -> None:
        """Note whose data parts hand out in this round; "all" stands for every client."""
        for part in parts:
            givers = np.unique(part.givers(memory[part.name], clients)).tolist()
            if givers:
                source = "all" if len(givers) == clients else givers
                self.given[part.name] = {"from": source} | ({"to": "all"} if part.slot == "prepare" else {})

    def selected(self, cohort: Cohort) -> None:
        """A cohort was chosen: what that took, and what its choice says of itself."""
        self.up.update(cohort.up)
        self.down.update(cohort.down)
        self.notes.update(cohort.notes)

    def prepared(self, parts: Iterable[tuple[Prepare, Roster]], roster: Roster) -> None:
        """What raw samples were moved before round 0, and what the log says of the data as each part prepared it."""
        for part, after in parts:
            self.notes.update(part.notes(after))
        for sharing in roster.sharing:
            self.moved(sharing, roster.clients)

    def sent(self, leg: Leg, shared: Mapping[str, Tree]) -> None:
        """A leg was asked for: its models, and what parts share, travel to the clients."""
        if leg.source == "server":
            self._sent_down(leg.clients, self.model, shared)
        elif leg.source != "own":
            before = leg.clients if leg.carry is None else leg.carry.clients
            # who goes on with a model of their own is handed none
            handed = np.full(len(before), leg.carry is None) | (before != leg.clients)
            models = int(handed.sum()) * self.model
            if leg.source == "peer":
                self.peer["model"] += models
                if self.air:
                    self.air.peer(before[handed], leg.clients[handed], self.model)
            else:
                self.up["model"] += models
                if self.air:
                    self.air.up(before[handed], self.model)
                self._sent_down(leg.clients[handed], self.model, {})
            # whoever was not asked before lacks what parts share, and the global model that they measure drift by
            strangers = np.array(sorted(set(leg.clients.tolist()) - self.asked), np.int64)
            self._sent_down(strangers, self.model * self.needs_global, shared)
        self.asked.update(leg.clients.tolist())
        self.trained_only.difference_update(leg.clients.tolist())

    def _sent_down(self, clients: Ids, model: int, shared: Mapping[str, Tree]) -> None:
        """To each of these clients this much of a model, and what parts share."""
        along = {part: nbytes(tree) for part, tree in shared.items() if tree and len(clients)}
        self.down["model"] += len(clients) * model
        for part, size in along.items():
            self.down[part] += len(clients) * size
        if self.air:
            self.air.down(clients, model + sum(along.values()))

    def moved(self, sharing: Sharing, clients: int) -> None:
        """Raw samples were sent before round 0; the line lists who sent how many to whom."""
        for transfer in sharing.transfers:
            counted = {"down": self.down, "up": self.up, "peer": self.peer}[transfer.way]
            counted["samples"] += sharing.bytes_of(transfer)
        if sharing.counts:
            self.up[LABEL_COUNTS] += sharing.counts
            if self.air:
                self.air.up(np.arange(clients), sharing.counts / clients)
        if self.air:
            self.air.samples(sharing)
        told = [{"part": sharing.part, **transfer.said(clients)} for transfer in sharing.transfers]
        self.notes["shared"] = self.notes.get("shared", []) + told

    def questioned(self, part: str, client: int, answer: int, model: bool) -> None:
        """A client was asked beside training: the model came down, if one did, and an answer of so many bytes up."""
        if not (model or answer):
            return  # it was asked before the first model, and has nothing to say
        self.up[f"{part} {'answers' if model else 'at the start'}"] += answer
        if model:
            self.down[f"model for {part}"] += self.model
        if self.air:
            who = np.array([client], np.int64)
            self.air.up(who, answer)
            if model:
                self.air.down(who, self.model)

    def received(self, leg: Leg, update: Update) -> None:
        """Clients answered: they trained, and where the leg says so their models came up."""
        self.sample_steps += int(update.samples.sum())
        self.idle.count(leg, update)
        self.visits.append(visit_told(leg, update))
        told = (update.samples, update.held, update.drawn)
        for client, spent, held, drawn in zip(
            update.clients.tolist(), *(v.tolist() for v in told), strict=True
        ):
            self.spent[client] += spent
            self.held[client], self.drawn[client] = held, drawn
        if leg.upload:
            sizes = update.sent.numpy() if len(update.sent) else np.full(len(update), self.model)
            self.up["model"] += int(sizes.sum())
            for part, tree in update.uploads.items():
                if tree:
                    self.up[part] += nbytes(tree)
            if self.air and len(update):
                reports = sum(map(nbytes, update.uploads.values()))
                self.air.up(update.clients, sizes + reports / len(update))
        else:
            self.trained_only.update(update.clients.tolist())

    def told(self, what: str, clients: Ids, numbers: int) -> None:
        """Each of these clients told the server so many numbers, beside its model."""
        if numbers and len(clients):
            self.up[what] += numbers * len(clients) * NUMBER_BYTES
            if self.air:
                self.air.up(clients, numbers * NUMBER_BYTES)

    def told_views(self, clients: Ids, told: Mapping[str, Numbers]) -> None:
        """These clients were told numbers for their views: each once a round, however often it is visited.

        The bytes are listed apart from those that go down, because some of these numbers only say where in a
        simulation's random numbers a client's own begin.
        """
        new = set(clients.tolist()) - self.viewing
        self.viewing |= new
        for part, numbers in told.items():
            if numbers and new:
                self.views[part] += len(new) * len(numbers) * NUMBER_BYTES

    def held_before(self, roster: Roster, after: Roster) -> dict[int, int]:
        """How many samples clients had at hand once one view was made (``after``), before later ones (``roster``).

        Both rosters are what label counts let the server expect. Without label counts they are equal, and the samples
        of later views are counted too.
        """
        if after is roster:
            return self.held
        return {k: n - int(roster.sizes[k]) + int(after.sizes[k]) for k, n in self.held.items()}

    def learned(self, part: Prepare, notes: Mapping[str, Any]) -> None:
        """The server learnt from those who answered: what they told, and what the log says of it."""
        self.told(f"{part.name} numbers", np.array(sorted(self.held), np.int64), part.tells)
        self.notes.update(notes)

    def refused(self, clients: Ids) -> None:
        """These clients' updates were refused, since they hold numbers that are not finite."""
        self.notes["rejected"] = self.notes.get("rejected", []) + clients.tolist()

    @property
    def everyone(self) -> Ids:
        """Whom the round asked to train, in order."""
        return np.array(sorted(self.asked), np.int64)

    @property
    def samples_used(self) -> int:
        """Samples that clients trained on, each once however many epochs they took."""
        return sum(min(self.drawn[client], spent) for client, spent in self.spent.items())

    def trained(self, before: Tree, clients: int) -> Tree:
        """Who has ever trained, after this round: one bit for each client. With a byte each of a million clients, made
        anew every round, this process's memory would become full of holes."""
        ever = before["clients"].numpy().copy() if before else np.zeros(-(-clients // 8), np.uint8)
        if ever.dtype == bool:  # as earlier versions kept it
            ever = np.packbits(ever)
        here = np.array([client for client, spent in self.spent.items() if spent], np.int64)
        np.bitwise_or.at(ever, here // 8, (128 >> here % 8).astype(np.uint8))
        self.distinct = int(np.bitwise_count(ever).sum())
        return {"clients": torch.from_numpy(ever)}

    def line(self) -> dict[str, Any]:
        """The fields of a log line."""
        kinds = {
            direction: dict(sorted(counted.items()))
            for direction, counted in (("down", self.down), ("up", self.up), ("peer", self.peer))
        }
        return {
            "bytes_down": self.down.total(),
            "bytes_up": self.up.total(),
            "bytes_peer": self.peer.total(),
            "bytes": kinds,
            "sample_steps": self.sample_steps,
            "samples_used": self.samples_used,
            "asked": len(self.asked),
            "answered": self.answered,
            "distinct_clients": self.distinct,
            **({"trained_only": len(self.trained_only)} if self.trained_only else {}),
            **({"told_for_views": dict(sorted(self.views.items()))} if self.views else {}),
            **self.idle.line(),
            **({"exchanged": self._exchanged()} if self.given else {}),
            **(self.air.line(self.everyone, self.down.total(), self.up.total()) if self.air else {}),
            **self.notes,
            **({"visits": self.visits} if self.visits else {}),
        }

    def _exchanged(self) -> dict[str, dict[str, Any]]:
        return {part: {"to": sorted(self.asked)} | given for part, given in self.given.items()}

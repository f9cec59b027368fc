"""Half a round here, half a round at a partner's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.core import conditions
from unskew.core.conditions import enforce, planned
from unskew.core.roster import Roster
from unskew.core.slot_names import LABEL_COUNTS
from unskew.core.slots import Depends, Play, Schedule
from unskew.core.types import Ids, Leg, Memory, PerClient, Tree, Update
from unskew.errors import InputError
from unskew.expression import AtMost

HANDED = "its half-trained model to another client"


@dataclass(frozen=True)
class SEM(Schedule):
    """Trains every model at two clients in turn, half a round each (Pham et al., SEM, algorithm 1).

    Client i trains the global model for E/2 epochs (line 8) and hands it to its partner (line 9), who trains it for
    E/2 epochs on its own data (line 14) and uploads it with the weight n_i + n_p(i) (line 15). The base method does
    the rest: FedProx pulls to the global model in both halves, SCAFFOLD counts the steps of both clients, and the
    second renews its control variate.

    pairing: ``swap`` draws random pairs that exchange their models, as in the authors' code; a client left over
    trains the whole round on its own. ``derangement`` passes models on along one random circle. ``emd``, which the
    paper leaves to future work, gives each model to the client whose labels differ most from what it has seen, for
    the largest sum over all models (it needs the clients' label counts).
    hops: how many clients train each model, 1/hops of the round each; 2 is the paper's choice, 1 is a plain round.
    via: ``peer`` hands over directly, ``relay`` through the server (the same numbers, other bytes), ``others``
    through the server to clients that did not yet take part in this round (section III.C).

    Left open, and taken: partners are drawn among those who finished the first half; where that leaves one over, it
    goes on with its own model. A model whose second client is lost is lost with it. A local optimiser starts afresh
    at a hand-over: only models are sent.
    """

    name: ClassVar[str] = "sem"
    paper: ClassVar[str] = "Pham et al., SEM, 2023"
    neutral: ClassVar[str | None] = "sem(hops=1)"
    discloses: ClassVar[Any] = Depends(
        (HANDED,), lambda part: (HANDED, LABEL_COUNTS) if part.pairing == "emd" else (HANDED,)
    )

    pairing: Literal["swap", "derangement", "emd"] = "swap"
    hops: Annotated[int, AtMost(1000)] = 2
    via: Literal["peer", "relay", "others"] = "peer"

    @property
    def last_round_differs(self) -> bool:
        return False

    def __post_init__(self) -> None:
        if self.hops < 1:
            raise InputError(f"hops of sem must be at least 1, not {self.hops}")

    @property
    def needs_counts(self) -> bool:
        return LABEL_COUNTS in self.discloses

    def check(self, roster: Roster, cohort: int) -> None:
        enforce(conditions.sem(planned(roster, cohort), self.hops, self.via))

    def round(self, play: Play, params: Tree, memory: Memory) -> tuple[Tree, Memory]:
        cohort = play.select()
        count = len(cohort.clients)
        circle = play.rng.permutation(count)
        alone = circle[:0]
        if self.hops == 1:
            alone = np.arange(count)
        elif self.via != "others" and (count == 1 or (self.pairing == "swap" and count % 2)):
            alone = circle[-1:]
        rest = np.setdiff1d(np.arange(count), alone)
        landed = []
        self._counted(play, cohort.clients)
        if len(rest):
            place = dict(zip(cohort.clients.tolist(), np.argsort(circle).tolist(), strict=True))
            landed.append(
                self._passed_on(play, params, cohort.clients[rest], cohort.settings.rows(rest), place)
            )
        if len(alone) or not landed:
            whole = play.train(Leg(cohort.clients[alone], params, settings=cohort.settings.rows(alone)))
            # line 15 with the client as its own partner
            landed.append(replace(whole, examples=whole.examples * self.hops))
        update = Update.joined([u for u in landed if len(u)] or landed[:1])
        return play.combine(params, update), memory

    def _counted(self, play: Play, clients: Ids) -> None:
        """To pair by EMD, the server is told what each of these clients holds of every class."""
        if self.pairing == "emd":
            play.told(LABEL_COUNTS, clients, play.roster.dataset.classes)

    def _passed_on(
        self, play: Play, params: Tree, clients: Ids, settings: PerClient, place: dict[int, int]
    ) -> Update:
        """The models of these clients after all their hops."""
        leg = Leg(clients, params, epochs=1 / self.hops, settings=settings, closing=False, upload=False)
        update = play.train(leg)
        # where label counts were not given, there is no distance between clients to tell of
        counted = play.roster.counted
        counts_of = play.roster.counts_of if counted else lambda some: np.zeros((len(some), 1), np.int64)
        settings, used, apart = settings.rows(update.rows), clients, 0.0
        seen = counts_of(update.clients)
        for hop in range(1, self.hops):
            if not len(update):
                break
            if self.via == "others":
                clients, settings = self._others(play, update, settings, used, seen)
                used = np.union1d(used, clients)
            else:
                to = self._partners(update.clients, seen, counts_of(update.clients), place, play.rng)
                clients, settings = update.clients[to], settings.rows(to)
            last = hop == self.hops - 1
            after = play.train(
                Leg(
                    clients,
                    update.params,
                    stacked=True,
                    anchor=params,
                    epochs=1 / self.hops,
                    done=hop / self.hops,
                    settings=settings,
                    carry=update,
                    closing=last,
                    upload=last,
                    source="peer" if self.via == "peer" else "relay",
                )
            )
            apart = float(np.mean(class_distances(seen, counts_of(clients)).diagonal()))
            update = update.then(after)
            settings, seen = settings.rows(after.rows), seen[after.rows] + counts_of(update.clients)
        play.note(partner_emd=apart)
        return update

    def _partners(
        self, at: Ids, seen: Array, counts: Array, place: dict[int, int], rng: np.random.Generator
    ) -> Ids:
        """For each model the position, among the clients that hold one, of the client it goes to."""
        count = len(at)
        to = np.arange(count)
        if self.pairing == "swap":
            order = rng.permutation(count)
            first, second = order[0 : count - 1 : 2], order[1:count:2]
            to[first], to[second] = second, first
        elif self.pairing == "derangement":
            order = np.argsort([place[int(c)] for c in at])
            to[order] = np.roll(order, -1)
        elif count > 1:
            distance = class_distances(seen, counts)
            np.fill_diagonal(distance, -1.0)  # below any distance: nobody keeps a model
            to = assign_partners(distance, rng)
        return to

    def _others(
        self, play: Play, update: Update, settings: PerClient, used: Ids, seen: Array
    ) -> tuple[Ids, PerClient]:
        """Clients that have not trained in this round, one a model; where they run out, models stay."""
        found = play.select(len(update), exclude=used)
        self._counted(play, found.clients)
        count = min(len(found.clients), len(update))
        to = np.arange(count)
        if self.pairing == "emd" and count:
            to = assign_partners(
                class_distances(seen[:count], play.roster.counts_of(found.clients)), play.rng
            )
        stay = np.arange(count, len(update))
        joined = PerClient.joined([found.settings.rows(to), settings.rows(stay)])
        return np.concatenate([found.clients[to], update.clients[stay]]), joined


def class_distances(counts: Array, others: Array) -> Array:
    """The EMD between every two rows of label counts; a row without samples is at distance 0 of any."""
    sizes, other_sizes = counts.sum(1, keepdims=True), others.sum(1, keepdims=True)
    first, second = counts / np.maximum(1, sizes), others / np.maximum(1, other_sizes)
    apart = np.stack([np.abs(row - second).sum(1) for row in first])
    return np.asarray(apart * (sizes > 0) * (other_sizes.T > 0))


def assign_partners(distance: Array, rng: np.random.Generator) -> Ids:
    """For each row its column in the assignment with the largest sum; ties fall at random."""
    from scipy.optimize import linear_sum_assignment  # here, because training needs this file but not scipy

    order = rng.permutation(distance.shape[1])
    rows, columns = linear_sum_assignment(distance[:, order], maximize=True)
    return np.asarray(order[columns[np.argsort(rows)]], np.int64)

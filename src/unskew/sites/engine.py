"""The engine whose clients live at real sites: the verbs of ``core/engine.py`` as requests and answers.

The server's process holds no client's sample and nothing that a client remembers: of a memory it keeps the version's
name, in its checkpoints, and the site has the memory under that name on its own disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch

from unskew.core.dispatch import gather_results
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.held import OWN, Moment
from unskew.core.holdings import Holdings
from unskew.core.memory_names import KEPT_MODEL, OWN_MODEL, STATISTICS
from unskew.core.questions import Query
from unskew.core.roster import Roster
from unskew.core.sharing import Sharing
from unskew.core.slots import Prepare
from unskew.core.state import State
from unskew.core.store import ClientStore
from unskew.core.task import Sums
from unskew.core.types import Ids, Leg, Tree, Update, leaves, nbytes
from unskew.core.upload import decode_update
from unskew.engines.device_data import DeviceData
from unskew.engines.loop import Loop
from unskew.errors import InputError, RunFailed
from unskew.sites import wire
from unskew.sites.answers import join_updates, look_of_answers, look_of_update
from unskew.sites.asking import Asking
from unskew.sites.carrier import MOST_MESSAGE
from unskew.sites.messages import BadMessage
from unskew.sites.transfer import Read, gather_pool, move_samples
from unskew.sites.versions import Versions

ROOM = 64 * 2**20
"""Bytes that an answer may take beside the models in it."""

AT_ONCE = 256 * 2**20
"""Bytes of models that clients keep and that are judged together."""

WIDEST_LAYER = 128
"""A layer may put out so many times as many numbers as a sample has."""

Found = TypeVar("Found")

MODELS = 8
"""Models' worth of numbers that a client's answer may hold: the trained one, and what parts report."""


@dataclass(frozen=True)
class Member:
    """A site of a run, and which of the run's clients live there."""

    site: str
    first: int
    clients: int

    @property
    def ids(self) -> Ids:
        return np.arange(self.first, self.first + self.clients)


class Sites:
    """Asks sites, each for all its clients at once."""

    name = "sites"

    def __init__(self, asking: Asking, members: list[Member], run: str):
        self.asking, self.members, self.run = asking, members, run
        self._home = np.concatenate([np.full(m.clients, i) for i, m in enumerate(members)])
        self._data: DeviceData | None = None
        self.pool: Loop | None = None  # where a method gathers all samples here
        self.versions = Versions()

    # --- verbs

    def hold(self, holdings: Holdings) -> None:
        """Nothing to take: the samples are where they are."""

    def choice(self, run: RunPlan) -> str:
        return (
            f"{len(self.members)} sites, each with its own samples: {', '.join(m.site for m in self.members)}"
        )

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        """Every site trains its clients of this leg; whose answer does not come, or is none, is left out."""
        if self.pool is not None:
            return self.pool.visit(job, leg, rows, round_inputs)
        places = {m: rows[self._home[leg.clients[rows]] == i] for i, m in enumerate(self.members)}
        places = {m: at for m, at in places.items() if len(at)}
        if not places:
            return gather_results(job, leg, rows, [])
        version, commit = self.versions.next(round_inputs.t), self.versions.take_commit()
        requests = {
            m.site: self._request(job.roster, m)
            | {
                "version": version,
                "decay": round_inputs.decay,
                "leg": wire.write_leg(leg, at),
                "shared": dict(round_inputs.shared),
                "moment": wire.write_moment(round_inputs.moment, leg.clients[at]),
                "memory": self.versions.of(round_inputs.store, leg.clients[at]),
                "commit": commit,
            }
            for m, at in places.items()
        }
        asked = {m.site: at for m, at in places.items()}
        parts = (*job.method.exchange, *job.method.encoders)
        names = tuple(part.name for part in parts)
        model = nbytes({k: v[0] for k, v in leg.start.items()} if leg.stacked else leg.start)

        def read(site: str, told: Mapping[str, Any]) -> Update:
            update = wire.read_update(told, leg, asked[site], tuple(job.net.trainable), names)
            if bool(update.messages) != bool(leg.upload and job.method.encoders):
                raise BadMessage("its update is not in the form that was asked for")
            said = torch.from_numpy(np.asarray(job.roster.weigh[update.clients], np.float64))
            as_dealt = not job.method.prepare and leg.settings.per_class is None
            if as_dealt and not torch.equal(update.examples, said):
                raise BadMessage("its update weighs other than the samples that it told of before the run")
            kept = {name: update.memory.get(name, {}) for name in names}
            if job.batch_norm == "local":
                kept[STATISTICS] = update.memory.get(STATISTICS, {})
            if leg.keeps or leg.blend is not None:
                name = OWN_MODEL if leg.source == "own" else KEPT_MODEL
                kept[name] = update.memory[name]
            return decode_update(job, leg, replace(update, memory=kept))

        most = min(MOST_MESSAGE, ROOM + MODELS * model * max(len(at) for at in asked.values()))
        found = self._alike(self.asking.all("visit", requests, read, most), look_of_update)
        return join_updates(job, leg, found)

    def query(self, job: Job, query: Query, clients: Ids, model: Tree, moment: Moment) -> Iterator[Tree]:
        """What each client answers, in this order. An answer that is missing ends the run: no method knows what to
        do without it."""
        if self.pool is not None:
            yield from self.pool.query(job, query, clients, model, moment)
            return
        asked = {m.site: clients[self._home[clients] == i] for i, m in enumerate(self.members)}
        requests = {
            m.site: self._request(job.roster, m)
            | {
                "part": query.part,
                "question": query.question,
                "values": dict(query.values),
                "clients": asked[m.site],
                "model": model,
                "moment": wire.write_moment(moment, asked[m.site]),
            }
            for m in self.members
            if len(asked[m.site])
        }

        def read(site: str, told: Mapping[str, Any]) -> list[Tree]:
            answers = wire.sequence(told, "answers")
            if len(answers) != len(asked[site]):
                raise BadMessage("it answers for other clients than were asked")
            for tree in answers:
                values: list[Any] = leaves(tree) if isinstance(tree, dict) else [None]
                if not all(isinstance(v, torch.Tensor) for v in values):
                    raise BadMessage("an answer holds something that is no tensor")
                if not all(bool(torch.isfinite(v).all()) for v in values if v.is_floating_point()):
                    raise BadMessage("an answer holds numbers that are not finite")
            return answers

        numbers = int(np.prod(job.roster.dataset.shape)) * WIDEST_LAYER
        most = sum(int(n) for n in job.roster.sizes[clients]) * numbers * 8 + len(clients) * MODELS * nbytes(
            model
        )
        told = self.asking.all("query", requests, read, min(MOST_MESSAGE, ROOM + most))
        found = self._all_of(requests, self._alike(told, look_of_answers), query.part)
        answer = {int(c): tree for site in requests for c, tree in zip(asked[site], found[site], strict=True)}
        yield from (answer[int(client)] for client in clients)

    def kept_models(self, job: Job, clients: Ids, store: ClientStore) -> Iterator[Tree]:
        """Copies of models that clients keep, as many at a time as one message to each site brings."""
        model = nbytes(job.net.initial)
        together = max(1, AT_ONCE // model)
        for first in range(0, len(clients), together):
            some = clients[first : first + together]
            asked = {m.site: some[self._home[some] == i] for i, m in enumerate(self.members)}
            requests = {
                site: {"run": self.run, "clients": ids, "memory": self.versions.of(store, ids)}
                for site, ids in asked.items()
                if len(ids)
            }

            def read(
                site: str, told: Mapping[str, Any], asked: dict[str, Ids] = asked
            ) -> list[tuple[int, Tree]]:
                models = wire.sequence(told, "models")
                if len(models) != len(asked[site]):
                    raise BadMessage("it has models of other clients than were asked")
                checked = [wire.tree_like(one, job.net.initial, None, "a model") for one in models]
                return list(zip(asked[site].tolist(), checked, strict=True))

            most = ROOM + 2 * model * together
            found = self._all_of(requests, self.asking.all("models", requests, read, most), "judging")
            by_client = {client: tree for pairs in found.values() for client, tree in pairs}
            yield from (by_client[int(client)] for client in some)

    def evaluate(self, job: Job, model: Tree, clients: Ids | None = None, moment: Moment = OWN) -> Sums:
        """The test set is judged here, clients' own samples where they are; who is lost counts as without samples."""
        data, task = job.roster.dataset, job.net.task
        if clients is None and moment.aside is not None:
            raise InputError(
                "samples that are set aside for all stay at their sites; write validation_of = client"
            )
        self._data = self._data or DeviceData(data, job.dtype)
        if clients is None:
            answers = self._data.judge(job.judging_net, model, None)
            return task.sums(data.y_test, answers, data.classes)
        if self.pool is not None:
            return self.pool.evaluate(job, model, clients, moment)
        nobody = np.zeros(0, np.int64)
        none = task.sums(nobody, self._data.judge(job.judging_net, model, nobody), data.classes, nobody, 0)
        asked = {m.site: clients[self._home[clients] == i] for i, m in enumerate(self.members)}
        requests = {
            m.site: self._request(job.roster, m)
            | {
                "clients": asked[m.site],
                "model": model,
                "moment": wire.write_moment(moment, asked[m.site]),
            }
            for m in self.members
            if len(asked[m.site])
        }

        def read(site: str, told: Mapping[str, Any]) -> Sums:
            return wire.read_sums(wire.mapping(told, "sums"), none, len(asked[site]))

        found = self.asking.all("evaluate", requests, read, ROOM) if requests else {}
        if not found:
            return wire.no_sums(none, len(clients))
        sites = list(requests)
        tables = [found[s] if s in found else wire.no_sums(none, len(asked[s])) for s in sites]
        order = np.concatenate([asked[s] for s in sites])
        at = {int(client): i for i, client in enumerate(order)}
        joined: Sums = tables[0].beside(tables[1:])
        return joined.take(np.array([at[int(client)] for client in clients], np.int64))

    def transfer(self, part: Prepare, sharing: Sharing, roster: Roster, seed: int) -> Roster:
        """Samples that sites agreed to give, carried by this process; pooled ones stay, and are trained on here."""
        clients = {m.site: m.ids for m in self.members}
        every = roster.dataset.bits // 8 * int(roster.sizes.sum()) * 8  # as they are, in any type

        def ask(verb: str, asked: dict[str, dict[str, Any]], read: Read) -> dict[str, Any]:
            by_name = {m.site: m for m in self.members}
            requests = {s: self._request(roster, by_name[s]) | values for s, values in asked.items()}
            told = self.asking.all(verb, requests, read, min(MOST_MESSAGE, ROOM + every))
            return self._all_of(requests, told, part.name)

        if sharing.pooled is not None:
            pool = gather_pool(ask, clients, part.name, roster)
            self.pool = Loop()
            self.pool.hold(Holdings(pool))
            return roster.after(sharing, pool.sizes, pool.counts if roster.counted else None)
        return roster.after(sharing, *move_samples(ask, clients, part.name, sharing, roster))

    def again(self) -> Sites:
        raise InputError("samples of real sites are not pooled to measure by; leave measure out")

    def close(self) -> None:
        self.asking.carrier.close()
        self._data = None

    # --- what a run on one machine does not need

    def take_notes(self) -> dict[str, Any]:
        """What a round's line says of the sites: bytes that really travelled, and who was lost and why."""
        return {"sites": self.asking.take_notes()}

    def checkpointed(self, state: State) -> None:
        """A checkpoint stands: with the next leg sites are told which versions it and the one before need."""
        self.versions.checkpointed(state)

    def _all_of(self, requests: Mapping[str, Any], found: dict[str, Found], who: str) -> dict[str, Found]:
        """What was found, where every site that was asked has answered."""
        for site in requests:
            if site not in found:
                raise RunFailed(
                    f"{who} asks all its clients, and site {site} {self.asking.lost.get(site, 'is away')}; "
                    "go on with `unskew resume` once it is back"
                )
        return found

    def _request(self, roster: Roster, member: Member) -> dict[str, Any]:
        return {"run": self.run, "roster": wire.write_roster(roster, member.ids)}

    def _alike(self, found: dict[str, Found], layouts: Callable[[Found], set[str]]) -> dict[str, Found]:
        """The answers that look as most do: parts' reports and answers have shapes that only clients know."""
        told = {site: layouts(answer) for site, answer in found.items()}
        every = [layout for some in told.values() for layout in some]
        usual = {max(every, key=every.count)} if every else set()
        for site, some in told.items():
            if not some <= usual:
                self.asking.lose(site, "gave an answer that is refused: it looks unlike the others'")
        return {site: answer for site, answer in found.items() if told[site] <= usual}

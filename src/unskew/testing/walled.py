"""An engine with walls: each client is a process that holds its own samples, and the server's process holds none.

It proves that a method needs nothing but the engine's verbs. What crosses a wall is pickled data: models, settings,
memories, questions by name, answers. A client's process is forked before there are any samples, and is then sent its
own; once a run is set up, the server's process has let go of the pool, and every verb makes sure of that.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.dispatch import gather_results
from unskew.core.engine import Job, RoundInputs, RunPlan
from unskew.core.held import BEFORE, OWN, Moment
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.query import answer_here
from unskew.core.questions import Query
from unskew.core.roster import Roster, without_pool, without_tests
from unskew.core.sharing import SERVER, Sharing
from unskew.core.slots import Prepare
from unskew.core.store import ClientStore
from unskew.core.task import Sums
from unskew.core.types import Ids, Leg, Tree, Update
from unskew.data.aside import Aside, Purpose
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.engines.cpu.workers import die_with
from unskew.engines.device_data import DeviceData
from unskew.engines.loop import Loop
from unskew.machine.processes import start_process


@dataclass
class OwnSamples:
    """Samples on their way: as they lie in a data set, each with the number it had in the pool."""

    x: Array
    y: Array
    numbers: Ids

    def take(self, index: Array) -> OwnSamples:
        return OwnSamples(self.x[index], self.y[index], self.numbers[index])

    @staticmethod
    def joined(parts: Sequence[OwnSamples]) -> OwnSamples:
        both = ((p.x for p in parts), (p.y for p in parts), (p.numbers for p in parts))
        x, y, numbers = (np.concatenate(list(each)) for each in both)
        return OwnSamples(x, y, numbers)


class Walled:
    """Runs each of ``clients`` clients in a process of its own. Make it before the data that it is to hold.

    Whoever gives it a federation must keep no other hold of it. ``method`` is what clients know beforehand; parts that
    cannot be pickled, such as classes defined in a function, reach them by this way alone.
    """

    name = "walled"

    def __init__(self, method: Method, clients: int):
        self.method = method
        self.job: Job | None = None
        self._walls = [Wall(method) for _ in range(clients)]
        self._pool: list[weakref.ref[Any]] = []
        self._data: DeviceData | None = None
        self._validation: Dataset | None = None

    # --- verbs

    def hold(self, holdings: Holdings) -> None:
        """Deal the samples out; the server lets go of them."""
        federation = holdings.federation
        assert federation.clients <= len(self._walls), "a walled engine needs a process for each client"
        data = federation.dataset
        self._pool = [weakref.ref(one) for one in (data, *_memory(data.x), *_memory(data.y))]
        bare = without_tests(without_pool(data))
        for client in range(federation.clients):
            places = federation.samples(client)
            own = OwnSamples(data.x[places], data.y[places], places)
            aside = {
                purpose: _samples(data, found, found.samples(client))
                for purpose, found in holdings.dealt.aside.items()
                if found.offsets is not None
            }
            self._ask([client], "hold", client, federation.clients, bare, *map(pickle.dumps, (own, aside)))
        validation = holdings.dealt.validation
        if validation is not None and validation.offsets is None:  # the server's own, as the test set is
            kept = _samples(data, validation, validation.indices)
            self._validation = replace(bare, x_test=kept.x, y_test=kept.y)
        del holdings.federation, holdings.dealt

    def choice(self, run: RunPlan) -> str:
        """What runs, in words."""
        return "a process for each client, which alone holds its samples"

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        """Every client trains in its own process, all at once."""
        self._brief(job)
        if not len(rows):
            return gather_results(job, leg, rows, [])
        sent = [(int(leg.clients[row]), "visit", *_one(leg, int(row), round_inputs)) for row in rows]
        updates = [replace(u, rows=rows[i : i + 1]) for i, u in enumerate(self._all(sent))]
        found = Update.joined(updates)
        held, drawn, sizes = (
            torch.cat([getattr(u, name) for u in updates]) for name in ("held", "drawn", "sent")
        )
        messages = [message for u in updates for message in u.messages]
        return replace(found, held=held, drawn=drawn, sent=sizes, messages=messages)

    def query(self, job: Job, query: Query, clients: Ids, model: Tree, moment: Moment) -> Iterator[Tree]:
        """A question goes to each wall, and an answer comes back."""
        self._brief(job)
        for client in clients.tolist():
            (answer,) = self._ask([client], "query", query, model, _told_to(moment, client))
            yield answer

    def evaluate(self, job: Job, model: Tree, clients: Ids | None = None, moment: Moment = OWN) -> Sums:
        """The test set is judged at the server, clients' own samples behind their walls."""
        self._brief(job)
        data = job.roster.dataset  # the server's own: a test set, and no pool
        if clients is None and moment.aside is not None:
            assert self._validation is not None, "the server was given no samples for this"
            judge = DeviceData(self._validation, job.dtype)
            answers = judge.judge(job.judging_net, model, None)
            return job.net.task.sums(self._validation.y_test, answers, data.classes)
        if clients is None or not len(clients):
            self._data = self._data or DeviceData(data, job.dtype)
            nobody = np.zeros(0, np.int64)
            found = self._data.judge(job.judging_net, model, None if clients is None else nobody)
            if clients is None:
                return job.net.task.sums(data.y_test, found, data.classes)
            return job.net.task.sums(nobody, found, data.classes, nobody, 0)
        sent = [(client, "evaluate", model, _told_to(moment, client)) for client in clients.tolist()]
        first, *others = self._all(sent)
        joined: Sums = first.beside(others)
        return joined

    def transfer(self, part: Prepare, sharing: Sharing, roster: Roster, seed: int) -> Roster:
        """Samples pass through the server's hands as they were sealed by their sender, and are not opened there."""
        if sharing.pooled is not None:
            told = self._ask([0], "pool", self._ask(roster.ids.tolist(), "give", None, 0, seed))
        else:
            gifts: dict[int, list[bytes]] = {}
            for transfer in sharing.transfers:
                if transfer.sender == SERVER:
                    sent = list(gifts[SERVER])
                else:
                    sent = self._ask([transfer.sender], "give", part.name, transfer.samples, seed)
                for receiver in transfer.receivers:
                    gifts.setdefault(receiver, []).extend(sent)
            told = self._all([(client, "take", gifts.get(client, [])) for client in roster.ids.tolist()])
        sizes = np.array([int(counts.sum()) for counts in told], np.int64)
        return roster.after(sharing, sizes, np.stack(told) if roster.counted else None)

    def again(self) -> Walled:
        """The same clients in other processes; their samples go from wall to wall."""
        twin = Walled(self.method, len(self._walls))
        twin._pool = self._pool
        for client, wall in enumerate(self._walls):
            if wall.holds:
                twin._ask([client], "hold", *wall.holds, wall.ask("give", None, 0, 0))
        return twin

    def close(self) -> None:
        """End the processes; their samples are gone with them."""
        for wall in self._walls:
            wall.end()
        for wall in self._walls:
            wall.process.join()
        self._walls = []

    # --- walls

    def _brief(self, job: Job) -> None:
        """Tell clients what all of them know of a run; and make sure that the server has let go of the samples."""
        assert not _left(self._pool), (
            "the clients' samples are still in the server's process: somebody kept them"
        )
        if self.job is not job:
            self.job = job
            known = job.method == self.method
            sent = replace(job, method=Method()) if known else job
            # also those who gave all they had to one: their own samples are still judged
            for client, wall in ((c, w) for c, w in enumerate(self._walls) if w.holds):
                wall.ask("brief", replace(sent, roster=job.roster.only(client)), known)

    def _ask(self, clients: Sequence[int], verb: str, *given: Any) -> list[Any]:
        return self._all([(client, verb, *given) for client in clients])

    def _all(self, sent: Sequence[tuple[Any, ...]]) -> list[Any]:
        """What clients answer, all at work at once; whoever is asked twice is asked in turn."""
        found = []
        waiting = list(sent)
        while waiting:
            now: list[tuple[Any, ...]] = []
            while waiting and waiting[0][0] not in {client for client, *_ in now}:
                now.append(waiting.pop(0))
            for client, *given in now:
                self._walls[client].send(*given)
            found += [self._walls[client].receive() for client, *_ in now]
        return found


def _samples(data: Dataset, aside: Aside, places: Ids) -> OwnSamples:
    """Some of what was set aside."""
    x, y = (data.x_test, data.y_test) if aside.in_test else (data.x, data.y)
    return OwnSamples(x[places], y[places], places)


def _memory(array: Array) -> Iterator[Array]:
    """An array and those whose memory it shows."""
    found: Any = array
    while isinstance(found, np.ndarray):
        yield found
        found = found.base


def _left(pool: Sequence[weakref.ref[Any]]) -> bool:
    """Whether samples are held on to, and not only waiting to be collected: the data set, or its arrays alone."""
    if all(one() is None for one in pool):
        return False
    gc.collect()
    return any(one() is not None for one in pool)


def _told_to(moment: Moment, client: int) -> Moment:
    """A moment as one client is told of it: nothing that was handed out to others."""
    row = np.flatnonzero(moment.clients == client)[:1]
    told = {part: {k: v[row] for k, v in numbers.items()} for part, numbers in moment.told.items()}
    return replace(moment, clients=moment.clients[row], told=told)


def _one(leg: Leg, row: int, round_inputs: RoundInputs) -> tuple[Leg, Any, ClientStore, Moment, float]:
    """A leg and its inputs as one client is told of it."""
    at, client = np.array([row]), int(leg.clients[row])
    start = {k: v[row : row + 1].clone() for k, v in leg.start.items()} if leg.stacked else leg.start
    carry = None if leg.carry is None else leg.carry.take(at)
    alone = replace(leg, clients=leg.clients[at], start=start, settings=leg.settings.rows(at), carry=carry)
    store = round_inputs.store
    own = {p: {client: store.get(p, client, {})} for p in store.rows if store.has(p, client)}
    mine = ClientStore(own)  # type: ignore[arg-type]
    return alone, round_inputs.shared, mine, _told_to(round_inputs.moment, client), round_inputs.decay


class Wall:
    """One client's process, seen from the server's side."""

    def __init__(self, method: Method) -> None:
        self.process, self.pipe = start_process(_live, method, os.getpid())
        self.holds: tuple[int, int, Dataset] | None = None

    def send(self, verb: str, *given: Any) -> None:
        if verb == "hold":
            self.holds = given[0], given[1], given[2]
        self.pipe.send_bytes(pickle.dumps((verb, given)))

    def receive(self) -> Any:
        answer, problem = pickle.loads(self.pipe.recv_bytes())
        if problem is not None:
            raise problem
        return answer

    def ask(self, verb: str, *given: Any) -> Any:
        self.send(verb, *given)
        return self.receive()

    def end(self) -> None:
        self.pipe.close()
        self.process.terminate()


def _live(pipe: Connection, method: Method, server: int) -> None:
    """A client's life: answer one verb after the other, until nobody is left to ask."""
    die_with(server)
    gc.freeze()  # what it was born with is never collected, and so not copied page by page
    torch.set_num_threads(1)
    client = Client(method)
    while True:
        try:
            verb, given = pickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        try:
            answer, problem = getattr(client, verb)(*given), None
        except Exception as error:
            answer, problem = None, error
        with contextlib.suppress(OSError):
            pipe.send_bytes(pickle.dumps((answer, problem)))


class Client:
    """Behind a wall: one client, its samples, and the loop engine to run the client function over them."""

    def __init__(self, method: Method) -> None:
        self.method, self.loop = method, Loop()
        self.job: Job | None = None

    def hold(
        self, client: int, clients: int, bare: Dataset, sealed: bytes, aside: bytes | None = None
    ) -> None:
        own: OwnSamples = pickle.loads(sealed)
        self.aside: dict[Purpose, OwnSamples] = {} if aside is None else pickle.loads(aside)
        self.client, self.clients, self.bare, self.own = client, clients, bare, len(own.y)
        self._keep(own)

    def brief(self, job: Job, known: bool) -> None:
        """What there is to know of the run; ``known``: its method is the one that this client was born with."""
        self.job = replace(job, method=self.method) if known else job

    def visit(self, leg: Leg, shared: Any, store: ClientStore, moment: Moment, decay: float) -> Update:
        round_inputs = RoundInputs(self._job.roster, shared, store, moment, decay)
        return self.loop.visit(self._job, leg, np.zeros(1, np.int64), round_inputs)

    def query(self, query: Query, model: Tree, moment: Moment) -> Tree:
        (answer,) = answer_here(self._job, self.loop.holdings, query, [self.client], model, moment)
        return answer

    def evaluate(self, model: Tree, moment: Moment) -> Sums:
        return self.loop.evaluate(self._job, model, np.array([self.client], np.int64), moment)

    def give(self, part: str | None, samples: int, seed: int) -> bytes:
        """So many samples as a part chooses them, or all; sealed."""
        index = np.arange(len(self.samples.y))
        if part is not None:
            (who,) = (p for p in self.method.prepare if p.name == part)
            roster = Roster(self.bare, np.full(self.clients, len(index)))
            held = self.loop.holdings.held(self.client, BEFORE, roster, (), seed)
            index = who.give(held, samples, seed)
        return pickle.dumps(self.samples.take(index))

    def take(self, gifts: Sequence[bytes]) -> Array:
        """Go on with what was sent and is not its own; how many of each class it has then."""
        own = self.samples.numbers
        fresh = [pickle.loads(sealed) for sealed in gifts]
        self._keep(OwnSamples.joined([self.samples, *(s.take(~np.isin(s.numbers, own)) for s in fresh)]))
        return self._counts()

    def pool(self, everything: Sequence[bytes]) -> Array:
        """Become the one client that holds all samples."""
        self.clients = 1
        self._keep(OwnSamples.joined([pickle.loads(sealed) for sealed in everything]))
        return self._counts()

    @property
    def _job(self) -> Job:
        assert self.job is not None, "a client is told of the run before it is asked"
        return self.job

    def _keep(self, samples: OwnSamples) -> None:
        self.samples = samples
        every = [samples, *self.aside.values()]
        data = replace(
            self.bare, x=np.concatenate([s.x for s in every]), y=np.concatenate([s.y for s in every])
        )
        dealt, begin = self._list(data, self.own), len(samples.y)
        found: dict[str, Aside] = {}
        for purpose, kept in self.aside.items():  # behind what it trains on
            offsets = np.where(np.arange(len(dealt.offsets)) > self.client, len(kept.y), 0)
            found["tests" if purpose == "test" else purpose] = Aside(begin + np.arange(len(kept.y)), offsets)
            begin += len(kept.y)
        self.loop.hold(Holdings(self._list(data, len(samples.y)), replace(dealt, **found)))  # type: ignore[arg-type]

    def _list(self, data: Dataset, count: int) -> Federation:
        """A federation in which nobody but this client holds anything."""
        offsets = np.where(np.arange(max(self.clients, self.client + 1) + 1) > self.client, count, 0)
        return Federation(data, np.arange(count), offsets)

    def _counts(self) -> Array:
        return np.bincount(self.samples.y, minlength=self.bare.classes)

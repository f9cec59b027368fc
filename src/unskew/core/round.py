"""One round, as State -> State. Read this first.

prepare   what data does each client train on?
select    who takes part?
tune      with which local settings?
schedule  how does a model travel through clients?      <- asks for training, leg by leg
objective what does a client minimise?                   (unskew.core.client)
upload    in which form does an update leave the client? (unskew.core.upload)
aggregate how do updates become one change?
advance   how far does the server step along it?
calibrate what is done to a copy before it is judged?    (unskew.core.evaluate)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.air import air_of
from unskew.core.engine import Job, Remote, RunPlan
from unskew.core.evaluate_clients import mark_stale
from unskew.core.faults import finite
from unskew.core.held import Moment
from unskew.core.kept import blended
from unskew.core.ledger import Ledger
from unskew.core.memory_names import KEPT_MODEL, LATE, OWN_MODEL, STATISTICS, TRAINED
from unskew.core.query import RunQuestions
from unskew.core.slots import After, Play
from unskew.core.state import State
from unskew.core.task import Sums
from unskew.core.types import NOBODY, Cohort, Ids, Leg, Memory, Tree, Update, moved_by, stack
from unskew.core.upload import decode_update
from unskew.seeds import generator


def play_round(run: RunPlan, state: State) -> tuple[State, dict[str, Any]]:
    """Play round ``state.round``; the next state, and the round's line for the log."""
    return Round(run, state).play()


class Round:
    """A round that is being played. A schedule asks it to ``select``, ``train`` and ``combine``.

    The state that it begins with is only read. What parts remember (``server``), what clients remember (``store``) and
    what the round cost (``ledger``) change with every verb, and make the next state and the line in the end.
    """

    def __init__(self, run: RunPlan, state: State):
        self.run, self.job, self.method, self.state = run, run.job, run.job.method, state
        self.t, self.seed = state.round, state.seed
        # a run that began before there was a slot remembers nothing for the part in it
        self.server: dict[str, Memory] = {part.name: {} for part in self.method.parts} | state.server
        self.store = state.clients
        roster, self.views = self.job.roster, []
        for part in self.method.prepare:
            before, roster = roster, part.expect(roster, self.t, self.server[part.name])
            self.views.append((part, before, roster))
        self.roster = roster  # what clients hold with all views of this round
        self.probes = sorted({name for part in self.method.parts for name in part.probes})
        self.ledger = Ledger(
            self.job.net.travelling_bytes(state.params, self.job.batch_norm),
            air_of(roster, self.seed, self.t),
            any(o.needs.global_model for o in self.method.objective)
            or bool(self.probes or self.method.encoders),
        )
        self.shared: Mapping[str, Tree] = {}  # what parts hand out with the model
        self.far = isinstance(run.engine, Remote)  # there clients keep their models themselves
        self.selections = self.legs = 0

    def play(self) -> tuple[State, dict[str, Any]]:
        """The next state, and the round's line for the log."""
        method, ledger, clients = self.method, self.ledger, self.roster.clients
        if self.t == 0:
            ledger.prepared([(part, after) for part, _, after in self.views], self.roster)
            self.server = begin_parts(self.run, self.server, ledger)
        self.shared = method.hand_out(self.server, self.t)
        ledger.exchanges(method.parts, self.server, clients)
        verbs = self.select, self.train, self.combine
        rng, last = generator(self.seed, "schedule", self.t), self.t == self.run.end - 1
        self.handed = Play(
            self.t, last, self.run.cohort, self.roster, *verbs, rng, ledger.notes.update, ledger.told
        )
        name = method.schedule.name
        params, self.server[name] = method.schedule.round(self.handed, self.state.params, self.server[name])
        # it holds this round's verbs: such a circle would keep the round's models until garbage is looked for
        del self.handed
        for part, known, after in self.views:
            held = ledger.held_before(self.roster, after)
            self.server[part.name], notes = part.learn(held, known, self.server[part.name])
            ledger.learned(part, notes)
        self.server[TRAINED] = ledger.trained(self.server.get(TRAINED, {}), clients)
        return State(self.t + 1, params, self.server, self.store, self.seed), ledger.line()

    def select(self, count: int | None = None, exclude: Ids = NOBODY) -> Cohort:
        """Who takes part, with their settings: ``count`` clients, or as many as the run asks for."""
        part, rng = self.method.select, generator(self.seed, "select", self.t, self.selections)
        self.selections += 1
        waiting = self.server.get(LATE, {}).get("clients", NOBODY)  # whose answer is still on its way
        busy = np.union1d(np.asarray(exclude, np.int64), waiting)
        wanted = self.run.cohort if count is None else count
        cohort, self.server[part.name] = part.select(wanted, busy, self.roster, self.server[part.name], rng)
        self.ledger.selected(cohort)
        for tune in self.method.tune:
            cohort.settings = tune.settings(self.t, cohort, self.roster, self.job.local)
        return cohort

    def train(self, leg: Leg) -> Update:
        """The update of those who answered with finite numbers. What they keep even if no upload lands is stored."""
        faults, leg_of_round = self.run.faults, (self.seed, self.t, self.legs)
        self.ledger.sent(leg, self.shared)
        leg = leg if self.far else self._with_kept_models(leg)
        if faults.single:
            leg = replace(leg, summable=False)
        lost = faults.hits("drop", leg.clients, *leg_of_round)
        inputs = self.run.inputs(self.roster, self.shared, self.store, self.moment(leg.clients))
        update = self.run.engine.visit(self.job, leg, np.flatnonzero(~lost), inputs)
        update = faults.spoil(decode_update(self.job, leg, update), *leg_of_round)
        self.legs += 1
        self._store(STATISTICS, update)  # a client has them as soon as it has trained
        self.ledger.received(leg, update)
        if not (whole := finite(update)).all():
            self.ledger.refused(update.clients[~whole])
            update = update.take(whole)
        for name in (OWN_MODEL, KEPT_MODEL):  # what a model is called where the client keeps it
            self._store(name, update)
        if leg.keeps and self.far:
            update = replace(update, params={}, base={})
        if leg.source == "own" and len(update):
            self.store = self.store.put(OWN_MODEL, update.clients, update.params)
            known = self.server.get(OWN_MODEL, {})
            self.server[OWN_MODEL] = mark_stale(known, update.clients, self.roster.clients)
        return update

    def combine(self, params: Tree, update: Update) -> Tree:
        """The next global model: ``params`` moved by the uploads that land in this round, late ones included."""
        method, job, ledger, server = self.method, self.job, self.ledger, self.server
        landed, server[LATE], late = self.run.faults.arrived(
            update, server.get(LATE, {}), self.seed, self.t, self.legs
        )
        ledger.notes |= {"late": late} if late else {}
        ledger.answered += len(landed)
        self.handed.landed = float(landed.examples.sum())
        if not len(landed):
            return params  # a cohort that vanished leaves the model unchanged
        landed = self._probed(landed)
        for o in method.exchange:
            server[o.name] = o.absorb(server[o.name], landed, self.roster.clients)
        for part, memory in landed.memory.items():
            self.store = self.store.put(part, landed.clients, memory)
        rule = method.aggregate
        change, server[rule.name] = rule.merge(params, landed, server[rule.name], job.net.trainable)
        for o in method.exchange:
            change = o.adjust(change, server[o.name])
        params, server[method.advance.name] = step_server(job, params, change, server[method.advance.name])
        query, note = RunQuestions(self.run, ledger, params, self.moment), ledger.notes.update
        after = After(job.net, job.judging_net, params, landed, self.roster, self.t, self.seed, query, note)
        for o in method.exchange:
            server[o.name] = o.renew(server[o.name], after)
        return params

    def moment(self, clients: Ids) -> Moment:
        """These clients' data as it is in this round, with the views that they make of it."""
        told = {
            part.name: part.hand_out(clients, self.t, known, self.server[part.name])
            for part, known, _ in self.views
        }
        self.ledger.told_views(clients, told)
        return Moment(self.t, clients=clients, told=told)

    def _with_kept_models(self, leg: Leg) -> Leg:
        """The leg with the models that its clients keep, where they go on with these."""
        if leg.blend is not None:
            leg = blended(leg)
        if leg.source != "own":
            return leg
        fresh = {k: v.cpu() for k, v in leg.start.items()}  # where memories are kept
        kept = stack([self.store.get(OWN_MODEL, int(c), fresh) for c in leg.clients])
        return replace(leg, start={k: v.to(leg.start[k].device) for k, v in kept.items()}, stacked=True)

    def _store(self, name: str, update: Update) -> None:
        """Take what clients remember under this name out of the update: it is kept whether or not that lands."""
        if name in update.memory:
            self.store = self.store.put(name, update.clients, update.memory.pop(name))

    def _probed(self, landed: Update) -> Update:
        """The update with what parts asked to have measured of the model that the round began with."""
        if not self.probes:
            return landed
        moment = self.moment(landed.clients)
        found = self.run.engine.evaluate(self.job, self.state.params, landed.clients, moment)
        self.ledger.told("probes", landed.clients, len(self.probes))
        return replace(landed, probes=told_by_all(found, self.probes, landed.examples.numpy()))


def told_by_all(found: Sums, probes: Iterable[str], examples: Array) -> dict[str, torch.Tensor]:
    """What was measured at clients, a number for each; who told none is taken for what the others are on average.

    It holds no sample, or its site is away by now: 0 would be a number, and mostly an extreme one.
    """
    told, means = found.count > 0, found.means()
    weights = np.where(told, examples, 0.0)
    share = weights / max(weights.sum(), np.finfo(np.float64).tiny)
    known = {name: np.asarray(means[name], np.float64) for name in probes}
    return {name: torch.from_numpy(np.where(told, value, share @ value)) for name, value in known.items()}


def step_server(job: Job, params: Tree, change: Tree, memory: Memory) -> tuple[Tree, Memory]:
    """The next model, and what the server remembers of its steps. Batch statistics are no direction to step along:
    what clients measured is taken as it is."""
    trained = {k: params[k] for k in job.net.trainable}
    stepped, memory = job.method.advance.step(trained, {k: change[k] for k in trained}, memory)
    measured = {k: v for k, v in params.items() if k not in trained}
    return params | moved_by(measured, change) | stepped, memory


def begin_parts(run: RunPlan, server: Mapping[str, Tree], ledger: Ledger) -> dict[str, Tree]:
    """The server's memory with what clients send before the first round."""
    job, query = run.job, RunQuestions(run, ledger)
    found = {o.name: o.begin(job.net, job.roster, query, job.seed) for o in job.method.exchange}
    return {name: tree | found.get(name, {}) for name, tree in server.items()}

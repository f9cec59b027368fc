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
from unskew.core.dispatch import STATISTICS
from unskew.core.engine import Job, Remote, RunPlan
from unskew.core.evaluate_clients import mark_stale
from unskew.core.faults import finite
from unskew.core.held import Moment
from unskew.core.kept import KEPT_MODEL, OWN_MODEL, blended
from unskew.core.ledger import Ledger
from unskew.core.query import RunQuestions
from unskew.core.slots import After, Play
from unskew.core.state import State
from unskew.core.task import Sums
from unskew.core.types import NOBODY, Cohort, Ids, Leg, Memory, Tree, Update, moved_by, stack
from unskew.core.upload import decode_update
from unskew.seeds import generator


def play_round(run: RunPlan, state: State) -> tuple[State, dict[str, Any]]:
    """Play round ``state.round``; the next state, and the round's line for the log."""
    job, method, t, seed = run.job, run.job.method, state.round, state.seed
    # a run that began before there was a slot remembers nothing for the part in it
    server: dict[str, Memory] = {part.name: {} for part in method.parts} | state.server
    store, roster = state.clients, job.roster
    views = []
    for part in method.prepare:
        before, roster = roster, part.expect(roster, t, server[part.name])
        views.append((part, before, roster))
    probes = sorted({name for part in method.parts for name in part.probes})
    ledger = Ledger(
        job.net.travelling_bytes(state.params, job.batch_norm),
        air_of(roster, seed, t),
        any(o.needs.global_model for o in method.objective) or bool(probes or method.encoders),
    )
    if t == 0:
        ledger.prepared([(part, after) for part, _, after in views], roster)
        server = begin_parts(run, server, ledger)
    shared = method.hand_out(server, t)
    ledger.exchanges(method.parts, server, roster.clients)
    selections = legs = 0

    def moment(clients: Ids) -> Moment:
        """These clients' data as it is in this round, with the views that they make of it."""
        told = {part.name: part.hand_out(clients, t, known, server[part.name]) for part, known, _ in views}
        ledger.told_views(clients, told)
        return Moment(t, clients=clients, told=told)

    def select(count: int | None = None, exclude: Ids = NOBODY) -> Cohort:
        nonlocal selections
        rng = generator(seed, "select", t, selections)
        selections += 1
        busy = np.union1d(
            np.asarray(exclude, np.int64), server.get("late", {}).get("clients", NOBODY)
        )  # still on its way back
        wanted, name = run.cohort if count is None else count, method.select.name
        cohort, server[name] = method.select.select(wanted, busy, roster, server[name], rng)
        ledger.selected(cohort)
        for part in method.tune:
            cohort.settings = part.settings(t, cohort, roster, job.local)
        return cohort

    def train(leg: Leg) -> Update:
        nonlocal legs, store
        ledger.sent(leg, shared)
        far = isinstance(run.engine, Remote)  # there clients keep their models themselves
        if leg.blend is not None and not far:
            leg = blended(leg)
        if leg.source == "own" and not far:
            fresh = {k: v.cpu() for k, v in leg.start.items()}  # where memories are kept
            kept = stack([store.get(OWN_MODEL, int(c), fresh) for c in leg.clients])
            leg = replace(leg, start={k: v.to(leg.start[k].device) for k, v in kept.items()}, stacked=True)
        lost = run.faults.hits("drop", leg.clients, seed, t, legs)
        if run.faults.single:
            leg = replace(leg, summable=False)
        inputs = run.inputs(roster, shared, store, moment(leg.clients))
        update = decode_update(job, leg, run.engine.visit(job, leg, np.flatnonzero(~lost), inputs))
        update = run.faults.spoil(update, seed, t, legs)
        legs += 1
        if STATISTICS in update.memory:  # a client's own: it has them as soon as it has trained
            store = store.put(STATISTICS, update.clients, update.memory.pop(STATISTICS))
        ledger.received(leg, update)
        if not (whole := finite(update)).all():
            ledger.refused(update.clients[~whole])
            update = update.take(whole)
        for name in (OWN_MODEL, KEPT_MODEL):  # what a model is called where the client keeps it
            if name in update.memory:
                store = store.put(name, update.clients, update.memory.pop(name))
        if leg.keeps and far:
            update = replace(update, params={}, base={})
        if leg.source == "own" and len(update):
            store = store.put(OWN_MODEL, update.clients, update.params)
            server[OWN_MODEL] = mark_stale(server.get(OWN_MODEL, {}), update.clients, roster.clients)
        return update

    def combine(params: Tree, update: Update) -> Tree:
        nonlocal store
        landed, server["late"], late = run.faults.arrived(update, server.get("late", {}), seed, t, legs)
        ledger.notes |= {"late": late} if late else {}
        ledger.answered += len(landed)
        play.landed = float(landed.examples.sum())
        if not len(landed):
            return params  # a cohort that vanished leaves the model unchanged
        if probes:
            found = run.engine.evaluate(job, state.params, landed.clients, moment(landed.clients))
            landed = replace(landed, probes=told_by_all(found, probes, landed.examples.numpy()))
            ledger.told("probes", landed.clients, len(probes))
        for o in method.exchange:
            server[o.name] = o.absorb(server[o.name], landed, roster.clients)
        for part, memory in landed.memory.items():
            store = store.put(part, landed.clients, memory)
        rule = method.aggregate
        change, server[rule.name] = rule.merge(params, landed, server[rule.name], job.net.trainable)
        for o in method.exchange:
            change = o.adjust(change, server[o.name])
        params, server[method.advance.name] = step_server(job, params, change, server[method.advance.name])
        query, note = RunQuestions(run, ledger, params, moment), ledger.notes.update
        after = After(job.net, job.judging_net, params, landed, roster, t, seed, query, note)
        for o in method.exchange:
            server[o.name] = o.renew(server[o.name], after)
        return params

    rng, last = generator(seed, "schedule", t), t == run.end - 1
    play = Play(t, last, run.cohort, roster, select, train, combine, rng, ledger.notes.update, ledger.told)
    name = method.schedule.name
    params, server[name] = method.schedule.round(play, state.params, server[name])
    for part, known, after in views:
        held = ledger.held_before(roster, after)
        server[part.name], notes = part.learn(held, known, server[part.name])
        ledger.learned(part, notes)
    server["trained"] = ledger.trained(server.get("trained", {}), roster.clients)
    return State(t + 1, params, server, store, seed), ledger.line()


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

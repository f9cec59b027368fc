"""Plans one leg ahead: the host makes them while the GPU trains the leg before."""

from __future__ import annotations

import numpy as np

from unskew.data.federation import Federation
from unskew.engines.engine import Ground, Job
from unskew.engines.errands import Asked, stretched
from unskew.plan import Plan
from unskew.seeds import generator
from unskew.select.full import Full
from unskew.select.uniform import Uniform
from unskew.types import Ids, Leg


def plans_ahead(job: Job, leg: Leg, ground: Ground, opening: float) -> dict[Asked, Plan]:
    """The plans that the next leg will most likely ask for; a round begins with a leg of the share ``opening``.

    A plan is a function of what it is asked with. So a guess that fails, since a part changes data, settings or
    who takes part, costs time while the GPU is busy, and never a number.
    """
    if leg.settings.per_class is not None or leg.settings.batch is not None:
        return {}
    federation, t = ground.federation, ground.t
    spent = leg.done + leg.epochs
    if spent < 1:  # a schedule that hands models over: the same clients go on
        clients, done, share = leg.clients, spent, leg.epochs
    else:
        clients, done, share, t = _next_cohort(job, federation, t + 1), 0.0, opening, t + 1
    if not len(clients):
        return {}
    about = (clients, federation.sizes[clients], federation.budget[clients], federation.pooled[clients])
    local = stretched(job, t)
    asked = [
        Asked(local, job.seed, t, client, held, budget, pooled, done, share)
        for client, held, budget, pooled in zip(*(a.tolist() for a in about), strict=True)
    ]
    return {one: one.plan() for one in asked}


def _next_cohort(job: Job, federation: Federation, t: int) -> Ids:
    """Who takes part in a round that has not begun: known where it is drawn from the seed alone."""
    rule, nobody = job.method.select, np.zeros(0, np.int64)
    if t >= job.rounds or type(rule) not in (Uniform, Full):  # others, even of these kinds, may remember
        return nobody
    return rule.select(job.cohort, nobody, federation, {}, generator(job.seed, "select", t, 0))[0].clients

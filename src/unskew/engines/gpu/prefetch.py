"""Plans one leg ahead: the host makes them while the GPU trains the leg before."""

from __future__ import annotations

from collections.abc import Iterable

from unskew.core.dispatch import PlanInputs, stretch_budget
from unskew.core.engine import Job, RoundInputs
from unskew.core.plan import Plan
from unskew.core.types import NOBODY, Ids, Leg
from unskew.seeds import generator

GUESSES = 3
"""Legs whose plans are made in vain, one after the other, before a run gives it up."""


class Prefetch:
    """The plans that the next leg will most likely ask for.

    A plan depends only on what it is asked with. A guess fails where a part changes data, settings or who takes part;
    that costs time while the GPU is busy, and never a number.
    """

    def __init__(self) -> None:
        self.made: dict[PlanInputs, Plan] = {}
        self.ready, self.late = 0, 0  # plans that were there when their leg came, and those that were not
        self._missed = 0  # guesses in a row that nobody asked for
        self._opening = (-1, 1.0)  # the round at hand, and the share of its first leg

    def begin(self, leg: Leg, t: int, plans: Iterable[Plan]) -> None:
        """A leg begins that turned out to need these plans."""
        early = {id(plan) for plan in self.made.values()}
        there = [id(plan) in early for plan in plans]
        if self.made:
            self._missed = 0 if any(there) else self._missed + 1
        if t > 0 or leg.done > 0:  # the first leg of all comes before any guess
            self.ready, self.late = self.ready + sum(there), self.late + len(there) - sum(there)
        if self._opening[0] != t:
            self._opening = t, leg.epochs

    def guess(self, job: Job, leg: Leg, round_inputs: RoundInputs) -> None:
        """Make the plans of the leg after this one."""
        self.made = {}
        if self._missed < GUESSES and leg.settings.per_class is None and leg.settings.batch is None:
            self.made = {asked: asked.plan() for asked in self._next(job, leg, round_inputs)}

    def _next(self, job: Job, leg: Leg, round_inputs: RoundInputs) -> list[PlanInputs]:
        roster, t = round_inputs.roster, round_inputs.t
        spent = leg.done + leg.epochs
        if spent < 1:  # a schedule that hands models over: the same clients go on
            clients, done, share = leg.clients, spent, leg.epochs
        else:
            t += 1
            clients, done, share = _next_cohort(job, round_inputs), 0.0, self._opening[1]
        if not len(clients):
            return []
        local = stretch_budget(job, t)
        about = (clients, roster.sizes[clients], roster.budget[clients], roster.pooled[clients])
        return [
            PlanInputs(local, job.seed, t, client, held, budget, pooled, done, share)
            for client, held, budget, pooled in zip(*(a.tolist() for a in about), strict=True)
        ]


def _next_cohort(job: Job, now: RoundInputs) -> Ids:
    """Who will most likely take part in a round that has not begun; nobody where the part cannot know."""
    if now.last:
        return NOBODY
    rng = generator(job.seed, "select", now.t + 1, 0)
    found = job.method.select.foresee(now.cohort, now.roster, rng)
    return NOBODY if found is None else found

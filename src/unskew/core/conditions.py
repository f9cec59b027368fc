"""What parts ask of the data and of the plan: the checks that a run makes, and that a diagnosis asks beforehand.

Nothing here needs torch. A part's ``check`` hands its hyper-parameters to the function of its name, so that what
``unskew diagnose`` says of a part is what the run would say.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.budget import nearest_each
from unskew.core.roster import Roster
from unskew.errors import InputError
from unskew.metrics.skew import PAIRWISE_LIMIT
from unskew.notices import warn


@dataclass(frozen=True, eq=False)
class Planned:
    """Who holds how much, and what a run would do with it; the settings are those of a run that says nothing."""

    sizes: Array
    classes: int
    cohort: int = 10
    rounds: int = 50
    epochs: float | None = None
    steps: int | None = None
    batch: int = 32

    @property
    def clients(self) -> int:
        return len(self.sizes)

    @property
    def capped(self) -> Planned:
        """The same with a cohort of at most all clients."""
        return replace(self, cohort=min(self.cohort, self.clients))

    @property
    def visits(self) -> float:
        """How often a client takes part, on average."""
        return self.rounds * self.cohort / max(1, self.clients)

    def visit_steps(self) -> Array:
        """How many steps each client takes in a visit."""
        batches = np.ceil(self.sizes / self.batch)
        if self.steps is not None:
            return np.where(self.sizes > 0, self.steps, 0)
        return np.where(self.sizes > 0, np.maximum(1, nearest_each((self.epochs or 1.0) * batches)), 0)

    def said(self) -> str:
        """The plan in words."""
        local = f"{self.steps} steps" if self.steps is not None else f"{self.epochs or 1:g} epochs"
        local = local.removesuffix("s") if local.split()[0] == "1" else local
        return (
            f"{self.rounds} rounds of {self.cohort} client{'s' if self.cohort > 1 else ''}, {local} of batches of "
            f"{self.batch}"
        )


def planned(roster: Roster, cohort: int = 10) -> Planned:
    """What is known of a run when its parts are checked."""
    return Planned(roster.sizes, roster.dataset.classes, cohort)


@dataclass(frozen=True)
class Objection:
    """Why a part does not suit: either it is refused, or it does nothing for this ``share`` of clients or models."""

    sentence: str
    refused: bool = False
    share: float = 1.0


def phase_shift(plan: Planned, n: int = 2) -> Objection | None:
    if n > plan.clients:
        are = "is" if plan.clients == 1 else "are"
        return Objection(
            f"phase_shift({n}) needs a client in each of its {n} phases but there {are} {plan.clients}; "
            f"write at most phase_shift({plan.clients})",
            refused=True,
        )
    return None


def sem(plan: Planned, hops: int = 2, via: str = "peer") -> Objection | None:
    clients, cohort = plan.clients, plan.cohort
    if via == "others" and hops * cohort > clients:
        instead = f"write cohort = {clients // hops} or less"
        if clients < hops:
            instead = f"write hops={clients} or less" if clients > 1 else "leave via=others out"
        there = "there is 1" if clients == 1 else f"there are {clients}"
        return Objection(
            f"sem(via=others) takes {hops} x {cohort} clients a round but {there}; {instead}",
            refused=True,
        )
    return None


def check_hand_over(plan: Planned, hops: int = 2) -> Objection | None:
    """Clients whose visit has too few steps to be divided: their model is trained at fewer clients than it visits."""
    held = plan.sizes > 0
    short = held & (plan.visit_steps() < hops)
    if hops < 2 or not short.any():
        return None
    least = int(plan.sizes[held].min())  # what is enough for the smallest client is enough for all
    instead = f"--steps {hops}"
    if plan.steps is None:
        instead = f"--epochs {math.ceil(hops / math.ceil(least / plan.batch))}"
        batches = math.ceil((hops - 0.5) / (plan.epochs or 1.0))  # half a step is rounded up to one
        instead += f" or --batch {least // batches}" if least >= batches else ""
    return Objection(
        f"{int(short.sum())} of {int(held.sum())} clients take fewer than {hops} steps a visit, so the models they "
        f"begin are trained at one client only; plan {instead}",
        share=float(short.sum() / held.sum()),
    )


def clustered(plan: Planned, name: str) -> Objection | None:
    if plan.clients > PAIRWISE_LIMIT:
        return Objection(
            f"{name} looks at every pair of clients, and {plan.clients} of them have too many; take at "
            f"most {PAIRWISE_LIMIT}",
            refused=True,
        )
    return None


def fedaug(plan: Planned, target: float = 0.8) -> Objection | None:
    classes = plan.classes
    if target > 2 - 2 / classes + 1e-12:
        return Objection(
            f"target of fedaug must lie between 0 and 2 - 2/{classes} = {2 - 2 / classes:.4g}, the largest EMD of "
            f"{classes} classes, not {target}",
            refused=True,
        )
    return None


def silent(plan: Planned, least: int, how: str, instead: str) -> Objection | None:
    """Clients that hold too few samples to give any by ``how``; ``instead`` is what to write where all of them do."""
    few = int((plan.sizes < least).sum())
    if not few:
        return None
    return Objection(
        f"{few} of {plan.clients} clients hold fewer than {least} samples and share nothing by {how}"
        + (f"; nothing is shared at all: {instead}" if few == plan.clients else ""),
        share=few / plan.clients,
    )


def flea(plan: Planned, share: float = 0.1) -> Objection | None:
    if not share:
        return None
    least = math.ceil(1 / share - 1e-9)
    return silent(plan, least, f"flea(share={share:g})", "write a larger share")


CONDITIONS: dict[str, tuple[Callable[..., Objection | None], ...]] = {
    "phase_shift": (phase_shift,),
    "sem": (sem, check_hand_over),
    "fedaug": (fedaug,),
    "flea": (flea,),
    "daca": (lambda plan: clustered(plan, "daca"),),
}
"""What a diagnosis asks of parts that have conditions, at their defaults unless it says otherwise."""


def problem_of(part: str, plan: Planned, **values: Any) -> Objection | None:
    """The gravest problem of a part with this plan: what is refused, else what makes nothing of most clients."""
    found = [p for asks in CONDITIONS.get(part, ()) if (p := asks(plan, **values)) is not None]
    return max(found, key=lambda problem: (problem.refused, problem.share), default=None)


def enforce(problem: Objection | None) -> None:
    """Refuse what is refused, and warn of the rest."""
    if problem is None:
        return
    if problem.refused:
        raise InputError(problem.sentence)
    warn(problem.sentence, stacklevel=3)


def warn_of_silent(roster: Roster, least: int, how: str, instead: str) -> None:
    """Say how many clients hold too few samples to give any by ``how``, and what to write where all of them do."""
    enforce(silent(planned(roster), least, how, instead))

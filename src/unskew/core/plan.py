"""Which samples a client trains on in which step: a function of the seed, the round and the client alone.

A client's budget is counted in steps. An epoch has as many steps, of the same sizes, as one pass over ``budget``
samples. They are filled from the data that the client holds, one shuffled pass after the other. ``held`` and ``budget``
differ where data was added (augmentation, sharing) or pooled and the compute must stay equal.

A leg that spends a share of the budget takes a range of these steps, so two halves are exactly one whole. What is no
whole number of steps is rounded as ``budget.py`` says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unskew.core.budget import in_round, nearest
from unskew.core.slots import Local
from unskew.core.types import Ids
from unskew.seeds import borrow_generator, generator


@dataclass(frozen=True)
class Plan:
    """Positions in the client's own list, step after step: step s is ``order[cuts[s]:cuts[s + 1]]``."""

    order: Ids
    cuts: Ids
    first: int  # the number, within the whole visit, of the first step here
    whole: int  # how many steps the whole visit has
    batch: int  # the size asked for; a client with fewer samples has smaller batches

    @cached_property
    def widest(self) -> int:
        """The largest batch there is."""
        return int(np.diff(self.cuts).max(initial=1))

    @property
    def steps(self) -> int:
        return len(self.cuts) - 1

    @property
    def samples(self) -> int:
        return len(self.order)


def batches_in(samples: int, batch: int, last: str) -> int:
    """How many steps one pass takes."""
    return max(1, samples // batch) if last == "drop" else math.ceil(samples / batch)


def _spent(budget: int, local: Local, batch: int, pooled: int) -> float:
    """The sample-steps of ``pooled`` clients that hold ``budget`` samples together."""
    if local.steps is not None:
        return local.steps * pooled * min(batch, budget / pooled)
    return (local.epochs or 0.0) * budget


def _steps_of(samples: float, held: int, batch: int, last: str) -> float:
    """How many steps it takes to see this many samples in passes over ``held``."""
    per_pass = batches_in(held, batch, last)
    passes, rest = divmod(samples, held if last == "keep" else per_pass * batch)
    full, left = divmod(rest, batch)
    here = min(batch, held - full * batch) if last == "keep" else batch  # the step that is taken in part
    return passes * per_pass + full + (left / here if left else 0.0)


def plan(
    held: int,
    budget: int,
    local: Local,
    *,
    seed: int,
    t: int,
    client: int,
    done: float = 0.0,
    share: float = 1.0,
    batch: int | None = None,
    pooled: int = 0,
) -> Plan:
    """The steps of one leg for a client that holds ``held`` samples and may spend epochs of ``budget``.

    A client that ``pooled`` others were gathered in spends as many sample-steps as they would have.
    """
    asked = batch or local.batch
    size = max(1, min(asked, held))
    if held == 0 or budget == 0:
        return Plan(np.zeros(0, np.int64), np.zeros(1, np.int64), 0, 0, asked)
    if pooled:
        spent = _spent(budget, local, asked, pooled)
        size = max(1, min(size, math.floor(spent)))  # less than a batch in all is one smaller batch
        exact = float(in_round(t, _steps_of(spent, held, size, local.last)))
    elif local.steps is not None:
        exact = float(local.steps)
    else:
        exact = (local.epochs or 0.0) * batches_in(budget, asked, local.last)
    exact = max(1.0, exact) if nearest(exact) < 1 else exact
    whole = nearest(exact)
    first, stop = (nearest(share_done * exact) for share_done in (done, done + share))
    if budget < held and not pooled:
        return _topped_up(held, budget, local.last, (seed, t, client), range(first, stop), whole, asked)
    per_pass = batches_in(held, size, local.last)
    # in one pass, by wrapping around or leaving some out
    shown = held if local.last == "keep" else per_pass * size
    passes = _passes(held, (seed, t, client), range(first // per_pass, math.ceil(stop / per_pass)))
    if shown > held:
        passes = [np.concatenate([shuffled, shuffled[: shown - held]]) for shuffled in passes]
    elif shown < held:
        passes = [shuffled[:shown] for shuffled in passes]
    # where steps end, counted from the beginning of the first of these passes
    number, place = np.divmod(np.arange(first, stop + 1), per_pass)
    ends = (number - first // per_pass) * shown + place * size
    order = np.concatenate(passes)[ends[0] : ends[-1]] if passes else np.zeros(0, np.int64)
    return Plan(order, ends - ends[0], first, whole, asked)


def _topped_up(
    held: int, budget: int, last: str, whose: tuple[int, int, int], steps: range, whole: int, asked: int
) -> Plan:
    """Steps as large as those of a client that holds ``budget``, filled from all ``held``, pass after pass."""
    size = max(1, min(asked, budget))
    per_epoch = batches_in(budget, size, last)
    shown = budget if last == "keep" else per_epoch * size
    number, place = np.divmod(np.arange(steps.start, steps.stop + 1), per_epoch)
    ends = number * shown + place * size
    begun = int(ends[0]) // held
    passes = _passes(held, whose, range(begun, math.ceil(int(ends[-1]) / held)))
    order = np.concatenate(passes) if passes else np.zeros(0, np.int64)
    order = order[ends[0] - begun * held : ends[-1] - begun * held]
    return Plan(order, ends - ends[0], steps.start, whole, asked)


def _passes(held: int, whose: tuple[int, int, int], numbers: range) -> list[Ids]:
    """These of a client's shuffled passes over all that it holds."""
    seed, t, client = whose
    return [borrow_generator(seed, "batches", t, client, number).permutation(held) for number in numbers]


def subset(labels: Ids, per_class: Ids, *, seed: int, t: int, client: int) -> Ids:
    """Positions of ``per_class[c]`` samples of each class c, drawn anew each round; at most what there is."""
    rng = generator(seed, "subset", t, client)
    shuffled = rng.permutation(len(labels))
    chosen = [shuffled[labels[shuffled] == c][: int(wanted)] for c, wanted in enumerate(per_class)]
    return np.sort(np.concatenate(chosen))

"""Rare classes filled up with altered copies, client by client, until the skew is bearable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.augment import alter
from unskew.core import conditions
from unskew.core.conditions import enforce, planned
from unskew.core.held import Held
from unskew.core.roster import Roster
from unskew.core.slots import Prepare
from unskew.core.types import Memory
from unskew.errors import InputError
from unskew.metrics.skew import system_emd_of
from unskew.notices import warn
from unskew.seeds import generator


@dataclass(frozen=True)
class FedAug(Prepare):
    """Augments a client's rarest classes up to a level that brings its EMD down to a target (thesis, chapter 5).

    A client whose label distribution is further than ``target`` from uniform (sum over classes of |p_i - 1/M|)
    raises every class below a level L to L samples with altered copies of its own (algorithm 4). L is that of
    eq. 5.4 where the classes left alone each hold at least 1/M of the data, as that equation assumes; where they do
    not, it would miss the target, so L is found by bisection on the EMD that results. L is then a whole number:
    the one of its two neighbours that comes closer.

    target: the augmented EMD, from 0 (all classes equal) to 2 - 2/M; 0.8 is the thesis's choice.
    redraw: ``each`` round makes new copies, ``once`` makes them before the first.

    Local epochs and the weight of an update count the samples before augmentation, so compute is the same as
    without. Who lacks a class cannot fill it and is left as it is; the log counts how many. Copies come from all
    originals of the class in turn, altered as their kind of data allows (``unskew.augment``).
    """

    name: ClassVar[str] = "fedaug"
    paper: ClassVar[str] = "the thesis, chapter 5"
    neutral: ClassVar[str | None] = "fedaug(1.3)"  # above the EMD of the federation that checks play with

    target: float = 0.8
    redraw: Literal["each", "once"] = "each"

    def __post_init__(self) -> None:
        if not 0 <= self.target < 2:
            raise InputError(f"target of fedaug is an EMD, at least 0 and below 2, not {self.target}")

    def check(self, roster: Roster, cohort: int) -> None:
        enforce(conditions.fedaug(planned(roster, cohort), self.target))

    # --- the server

    def expect(self, roster: Roster, t: int | None, memory: Memory) -> Roster:
        if not roster.counted or (t is None and self.redraw == "each"):
            return roster
        expected = roster.lifted(self, lambda counts: additions(counts, self.target), counted=False)
        first = t is None or (t == 0 and self.redraw == "each")
        if first and not (expected.sizes > roster.sizes).any():
            above = sum(int((distances(held) > self.target).sum()) for held in roster.count_blocks())
            if above:
                warn(
                    f"fedaug does nothing: the {above} clients above EMD {self.target:g} each lack a class, and what "
                    "is not there cannot be altered; `unskew diagnose` names other remedies",
                    stacklevel=2,
                )
        return expected

    def notes(self, roster: Roster) -> Mapping[str, Any]:
        if not roster.counted:
            return {}
        held, made = int(roster.sizes.sum()), int(roster.more.sum())
        lacking = 0
        for counts in roster.count_blocks():
            above = distances(counts) > self.target
            lacking += int(((counts == 0).any(1) & (counts.sum(1) > 0) & above).sum())
        return {
            "fedaug": {
                "augmented": made,
                "unaltered_share": float((held - made) / max(1, held)),
                "emd": system_emd_of(roster.look_at_counts, roster.clients, roster.dataset.classes),
                "left_for_lack_of_a_class": lacking,
            }
        }

    # --- a client

    def view(self, held: Held, t: int | None, seed: int, **told: float) -> Held:
        if t is None and self.redraw == "each":
            return held
        more = additions(held.counts[None], self.target)[0]
        if not more.any():
            return held
        rng = generator(seed, "fedaug", "once" if self.redraw == "once" else int(t or 0), held.client)
        labels = held.labels
        index = np.concatenate(
            [take_in_turn(np.flatnonzero(labels == c), n, rng) for c, n in enumerate(more) if n]
        )
        return held.adding(alter(held.dataset, held.x(index), rng), labels[index])


def distances(counts: Array) -> Array:
    """Each client's EMD from equal classes; 0 for one without samples."""
    sizes = counts.sum(1, keepdims=True)
    return np.asarray((np.abs(counts / np.maximum(1, sizes) - 1 / counts.shape[1]) * (sizes > 0)).sum(1))


def levels(counts: Array, target: float) -> Array:
    """L of algorithm 4 for each row of label counts, as a real number: raising the classes below L to it gives the
    target.

    As L grows from the row's rarest class to its most frequent one, the EMD falls from the row's own to 0. A row that
    is below the target already gets its rarest class.
    """
    low, high = counts.min(1).astype(np.float64), counts.max(1).astype(np.float64)
    above = distances(counts) > target
    for _ in range(64):
        middle = (low + high) / 2
        further = above & (distances(np.maximum(counts, middle[:, None])) > target)
        low, high = np.where(further, middle, low), np.where(further, high, middle)
    return np.asarray(np.where(above, high, counts.min(1)))


def additions(counts: Array, target: float) -> Array:
    """How many copies of each class each client makes; none where it lacks a class or is below the target.

    The level of algorithm 4 (``levels``) lies between two whole numbers. The one that comes closer to the target is
    taken.
    """
    able = (counts > 0).all(1) & (distances(counts) > target + 1e-12)
    held = counts[able]
    added = np.zeros_like(counts)
    if not len(held):
        return added
    low, high = held.min(1), held.max(1)  # too far at the one, at 0 at the other
    while ((apart := high - low) > 1).any():
        middle = low + apart // 2
        further = (apart > 1) & (distances(np.maximum(held, middle[:, None])) > target)
        low, high = np.where(further, middle, low), np.where(further | (apart <= 1), high, middle)
    down, up = (np.maximum(held, whole[:, None]) for whole in (low, high))
    lower = np.abs(distances(down) - target) <= np.abs(distances(up) - target)
    added[able] = np.where(lower[:, None], down, up) - held
    return added


def take_in_turn(members: Array, copies: int, rng: np.random.Generator) -> Array:
    """``copies`` of these samples, each as often as any other."""
    rounds = -(-copies // len(members))
    return np.concatenate([rng.permutation(members) for _ in range(rounds)])[:copies]

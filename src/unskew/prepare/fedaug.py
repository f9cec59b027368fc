"""Rare classes filled up with altered copies, client by client, until the skew is bearable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from unskew import conditions
from unskew.augment import altered
from unskew.conditions import enforce, planned
from unskew.data.dataset import Array
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.metrics import system_emd
from unskew.notices import warn
from unskew.parts import Prepare
from unskew.seeds import generator
from unskew.types import Tree


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

    def check(self, federation: Federation, cohort: int) -> None:
        enforce(conditions.fedaug(planned(federation, cohort), self.target))

    def once(self, federation: Federation, cohort: int, seed: int) -> Federation:
        return self._augmented(federation, seed, "once") if self.redraw == "once" else federation

    def each(self, t: int, federation: Federation, memory: Tree, seed: int) -> tuple[Federation, Tree]:
        return (self._augmented(federation, seed, t) if self.redraw == "each" else federation), memory

    def notes(self, federation: Federation) -> Mapping[str, Any]:
        counts = federation.counts
        held = int(federation.sizes.sum())
        lacking = (counts == 0).any(1) & (counts.sum(1) > 0) & (distances(counts) > self.target)
        return {
            "fedaug": {
                "augmented": held - int(federation.budget.sum()),
                "unaltered_share": float(federation.budget.sum() / max(1, held)),
                "emd": system_emd(counts),
                "left_for_lack_of_a_class": int(lacking.sum()),
            }
        }

    def _augmented(self, federation: Federation, seed: int, when: int | str) -> Federation:
        """The federation with altered copies appended to its pool and to its clients' lists."""
        added = additions(federation.counts, self.target)
        dataset = federation.dataset
        clients = np.flatnonzero(added.any(1))
        if not len(clients):
            above = int((distances(federation.counts) > self.target).sum())
            if above and when in (0, "once"):
                warn(
                    f"fedaug does nothing: the {above} clients above EMD {self.target:g} each lack a class, and what "
                    "is not there cannot be altered; `unskew diagnose` names other remedies",
                    stacklevel=2,
                )
            return federation
        sources, samples = [], [dataset.x]
        for client in clients:
            rng = generator(seed, "fedaug", when, int(client))
            held = federation.samples(int(client))
            labels = dataset.y[held]
            copied = [_in_turn(held[labels == c], n, rng) for c, n in enumerate(added[client]) if n]
            sources.append(np.concatenate(copied))
            samples.append(altered(dataset, sources[-1], rng))
        source = np.concatenate(sources)
        columns = {k: np.concatenate([v, v[source]]) for k, v in dataset.columns.items()}
        grown = replace(
            dataset,
            x=np.concatenate(samples),
            y=np.concatenate([dataset.y, dataset.y[source]]),
            columns=columns,
        )
        owners = (
            np.repeat(np.arange(federation.clients), federation.sizes),
            np.repeat(clients, added[clients].sum(1)),
        )
        places = np.concatenate([federation.indices, len(dataset) + np.arange(len(source))])
        order = np.argsort(np.concatenate(owners), kind="stable")
        offsets = federation.offsets + np.concatenate([[0], np.cumsum(added.sum(1))])
        return replace(federation, dataset=grown, indices=places[order], offsets=offsets)


def distances(counts: Array) -> Array:
    """Each client's EMD from equal classes; 0 for one without samples."""
    sizes = counts.sum(1, keepdims=True)
    return np.asarray((np.abs(counts / np.maximum(1, sizes) - 1 / counts.shape[1]) * (sizes > 0)).sum(1))


def levels(counts: Array, target: float) -> Array:
    """L of algorithm 4 for each row of label counts, as a real number: classes below L, raised to it, give the target.

    The EMD falls as L grows, from the row's own at its rarest class to 0 at its most frequent one; a row that is
    below the target already gets the former.
    """
    low, high = counts.min(1).astype(np.float64), counts.max(1).astype(np.float64)
    above = distances(counts) > target
    for _ in range(64):
        middle = (low + high) / 2
        further = above & (distances(np.maximum(counts, middle[:, None])) > target)
        low, high = np.where(further, middle, low), np.where(further, high, middle)
    return np.asarray(np.where(above, high, counts.min(1)))


def additions(counts: Array, target: float) -> Array:
    """How many copies of each class each client makes; none where it lacks a class or is below the target."""
    level = levels(counts, target)
    down, up = (
        np.maximum(counts, rounded[:, None]) for rounded in (np.floor(level + 1e-9), np.ceil(level - 1e-9))
    )
    lower = np.abs(distances(down) - target) <= np.abs(distances(up) - target)
    filled = np.where(lower[:, None], down, up).astype(np.int64)
    able = (counts > 0).all(1) & (distances(counts) > target + 1e-12)
    return np.asarray((filled - counts) * able[:, None])


def _in_turn(members: Array, copies: int, rng: np.random.Generator) -> Array:
    """``copies`` of these samples, each as often as any other."""
    rounds = -(-copies // len(members))
    return np.concatenate([rng.permutation(members) for _ in range(rounds)])[:copies]

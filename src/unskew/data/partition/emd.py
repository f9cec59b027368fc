"""``emd``: the skew itself is the parameter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from unskew.arrays import Array
from unskew.data.partition.deal import shares
from unskew.data.partition.family import Family, PartitionTask
from unskew.data.partition.limit_labels import highest_emd
from unskew.errors import InputError
from unskew.expression import Usual


@dataclass(frozen=True)
class Emd(Family):
    """A random label distribution with the wanted EMD, shifted by one class from client to client.

    Zhao et al. (2018), with the solver of the thesis (algorithm 1, "Robinhood"): a random vector p is changed
    by random moves between two classes, poor to rich where the EMD is too small, rich to poor where it is too
    large, until sum_y |p_y - 1/M| = ``target`` (eq. 3.9). Client k then takes p shifted by k places.

    Algorithm 1 may walk for ever; here the moves are bounded and a closed step ends exactly on the target.
    The thesis also needs as many samples of each class and clients in multiples of M. Otherwise classes are
    dealt in proportion to the shifted vectors, which misses the target: the shares are then sharpened by
    bisection and blended with equal shares, in which the EMD is linear, so that it is met again.
    """

    target: Annotated[float, Usual(0, 1.99, start=1.0)]
    name: ClassVar[str] = "emd"
    knob: ClassVar[str] = "target"
    free: ClassVar[Mapping[str, Any]] = {"target": 0.0}

    def __post_init__(self) -> None:
        if not 0 <= self.target < 2:
            raise InputError(f"target of emd must lie between 0 and 2, not {self.target:g}")

    def counts(self, task: PartitionTask) -> Array:
        rng = task.generator("vector")
        present = task.present
        length, group = _groups(task, rng)
        target = min(self.target, 2 - 2 / length)
        p = vector_with_emd(target, length, rng)
        shift = np.arange(task.clients) % length
        portions = _portions(p, self.target, task.sizes[present], group, np.bincount(shift, minlength=length))
        counts = np.zeros((task.clients, task.classes), np.int64)
        for i, y in enumerate(present):
            counts[:, y] = shares(int(task.sizes[y]), portions[shift, i], task.generator("shares", int(y)))
        return counts

    def closed_emd(self, classes: int, clients: int) -> float:
        top = highest_emd(1, classes, clients)
        if self.target > top + 1e-9:
            raise _beyond(self.target, clients, top)
        return self.target

    def knob_ends(self, task: PartitionTask) -> tuple[float, float]:
        return 0.0, top_of(task)

    @classmethod
    def starts(cls, emd: float, classes: int, clients: int, given: Mapping[str, Any]) -> list[Self]:
        return [cls(emd)] if emd <= highest_emd(1, classes, clients) + 1e-9 else []

    @classmethod
    def extremes(cls, task: PartitionTask, given: Mapping[str, Any]) -> list[Self]:
        return [cls(0.0), _Most(0.0)]  # type: ignore[list-item]


class _Most(Emd):
    """As much skew as this family can make of a task."""

    def counts(self, task: PartitionTask) -> Array:
        return Emd(top_of(task)).counts(task)

    def closed_emd(self, classes: int, clients: int) -> float:
        return highest_emd(1, classes, clients)


def top_of(task: PartitionTask) -> float:
    """The highest EMD on this task: every group of classes at clients of its own, 2 - 2 sum of squared shares."""
    length, group = _groups(task, task.generator("vector"))
    sizes = np.bincount(group, task.sizes[task.present], minlength=length) / max(1, task.samples)
    return max(0.0, float(2 - 2 * np.square(sizes).sum()) - 1e-9)


def _groups(task: PartitionTask, rng: np.random.Generator) -> tuple[int, Array]:
    """Fewer clients than classes leave some to nobody: then classes form as many groups as clients."""
    length = min(task.clients, len(task.present))
    return length, rng.permutation(len(task.present)) % length


def _beyond(target: float, clients: int, top: float) -> InputError:
    return InputError(
        f"emd cannot reach {target:g} on these labels: with {clients} clients it is 0 to {top:.4g}"
    )


def vector_with_emd(target: float, length: int, rng: np.random.Generator) -> Array:
    """A random distribution p with sum_y |p_y - 1/length| = target (thesis algorithm 1, then exactly)."""
    p = rng.random(length)
    p /= p.sum()
    values, even = p.tolist(), 1 / length
    emd = sum(abs(v - even) for v in values)
    moves = 200 * length
    picks, sizes = rng.integers(0, length, (moves, 2)).tolist(), rng.random(moves).tolist()
    for (i, j), size in zip(picks, sizes, strict=True):
        if abs(target - emd) <= 1e-3:
            break
        if i == j:
            continue
        rich, poor = (i, j) if values[i] >= values[j] else (j, i)
        before = abs(values[rich] - even) + abs(values[poor] - even)
        if emd < target:
            step = size * values[poor]
        else:
            step = -size * (values[rich] - values[poor]) / 2
        values[rich] += step
        values[poor] -= step
        emd += abs(values[rich] - even) + abs(values[poor] - even) - before
    return _finished(np.array(values), target)


def _finished(p: Array, target: float) -> Array:
    """The same vector, moved the last bit on to the target."""
    even = 1 / len(p)
    emd = float(np.abs(p - even).sum())
    if emd >= target:
        return even + (p - even) * (target / emd if emd > 0 else 0.0)
    # emptying class y into the richest adds 2 min(p_y, 1/M): empty the poorest until one has to give a part
    p = p.copy()
    order = np.argsort(p, kind="stable")
    richest, lacking = int(order[-1]), target - emd
    for y in order[:-1]:
        gain = min(2 * min(p[y], even), lacking)
        taken = p[y] if gain < lacking else max(p[y] - even, 0) + gain / 2
        p[y] -= taken
        p[richest] += taken
        lacking -= gain
        if lacking <= 0:
            break
    return p


def _portions(p: Array, target: float, sizes: Array, group: Array, clients: Array) -> Array:
    """The share of each class that a client with each shift gets; ``clients`` counts those with each shift."""

    def system(vector: Array) -> tuple[Array, float]:
        shifted = vector[(group[None, :] - np.arange(len(vector))[:, None]) % len(vector)]
        portions = shifted / (clients @ shifted)
        held = portions @ sizes
        gap = np.abs(portions * sizes - held[:, None] * (sizes / sizes.sum())).sum(axis=1)
        return portions, float(clients @ gap) / float(sizes.sum())

    portions, reached = system(p)
    if reached < target - 1e-9:
        peak = np.eye(len(p))[int(p.argmax())]
        portions, reached = system(peak)
        if reached < target - 1e-9:
            raise _beyond(target, int(clients.sum()), reached)
        soft, sharp = 0.0, 1.0
        for _ in range(60):
            middle = (soft + sharp) / 2
            portions, reached = system((1 - middle) * p + middle * peak)
            soft, sharp = (middle, sharp) if reached < target else (soft, middle)
        portions, reached = system((1 - sharp) * p + sharp * peak)
    blend = target / reached if reached > target else 1.0
    return np.asarray((1 - blend) / clients.sum() + blend * portions)

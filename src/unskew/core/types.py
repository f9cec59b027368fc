"""What travels in a round: trees of tensors, a request to train, and the answer to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.arrays import Array
from unskew.arrays import Ids as Ids
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

Tree = dict[str, "Tensor"]
"""Named tensors, flat. "Stacked" means with a leading client axis."""

Memory = dict[str, Any]
"""What a part remembers: tensors and trees, each under a name, ``{"count": n, "momentum": {"w": ...}}``. A tree may be
one itself."""

Shape = tuple[int, ...]

NOBODY: Ids = np.zeros(0, np.int64)

CLIENTS_AT_ONCE = 8
"""Clients summed at a time. Sums over clients are always taken in blocks of this many, in cohort order. Workers hold
whole blocks, so their number does not change a bit of the result."""

COLUMNS = 2**15
"""Numbers of each client of such a block that a CPU sums at a time: 2 MiB in float64, which fit its cache."""

JOINED_GPU = 2**26
"""On a GPU, starting a kernel takes as long as summing a small tensor. So tensors are laid side by side and summed as
one table, up to this many numbers of all clients: 256 MiB in float32, and as much again for what is subtracted."""


def no_rows() -> Tensor:
    """No rows: a vector with nothing in it."""
    return torch.zeros(0, dtype=torch.int64)


def map_tensors(
    function: Callable[..., Tensor], tree: Mapping[str, Any], *others: Mapping[str, Any]
) -> Memory:
    """The tree of what the function gives for each tensor; of several trees, for the tensors at the same place."""
    found: Memory = {}
    for name, value in tree.items():
        there = [other[name] for other in others]
        inner = isinstance(value, dict)
        found[name] = map_tensors(function, value, *there) if inner else function(value, *there)
    return found


def leaves(tree: Mapping[str, Any]) -> list[Tensor]:
    """Every tensor of a tree, and of the trees in it."""
    return [v for value in tree.values() for v in (leaves(value) if isinstance(value, dict) else (value,))]


def clone(tree: Mapping[str, Any]) -> Memory:
    return map_tensors(lambda v: v.detach().clone(), tree)


def stack(trees: Sequence[Mapping[str, Any]]) -> Memory:
    """Trees of the same names, stacked along a new client axis."""
    return map_tensors(lambda *values: torch.stack(values), *trees) if trees else {}


def rows(tree: Mapping[str, Any], index: Tensor) -> Memory:
    """Some clients of a stacked tree. Rows that share one memory (see ``expand``) go on sharing it."""
    where = {index.device: index}  # looked up once on each device

    def some(v: Tensor) -> Tensor:
        if v.stride(0) == 0 and len(v):
            return v[:1].expand(len(index), *v.shape[1:])
        if v.device not in where:
            where[v.device] = index.to(v.device)
        return v.index_select(0, where[v.device])

    return map_tensors(some, tree)


def rows_at(tree: Memory, places: Ids, of: int) -> Memory:
    """The rows at these places of a stacked tree with ``of`` rows; all of them in order are the tree itself."""
    return tree if np.array_equal(places, np.arange(of)) else rows(tree, torch.tensor(places))


def join(trees: Sequence[Memory]) -> Memory:
    """Stacked trees, one after the other along the client axis."""
    if len(trees) == 1:
        return trees[0]
    return map_tensors(lambda *values: torch.cat(values), *trees) if trees else {}


def expand(tree: Mapping[str, Tensor], clients: int) -> Tree:
    """One model as ``clients`` stacked rows that share its memory; never written to."""
    return {k: v.expand(clients, *v.shape) for k, v in tree.items()}


def nbytes(tree: Mapping[str, Any]) -> int:
    return sum(v.numel() * v.element_size() for v in leaves(tree))


def weighted_sum(
    tree: Mapping[str, Tensor], weights: Tensor, minus: Mapping[str, Tensor] | None = None
) -> Tree:
    """Sum of weight x (tree - minus) over the client axis, in float64, in fixed blocks in cohort order."""
    found: Tree = {}
    for names in side_by_side(tree) if len(weights) else []:
        less = None if minus is None else as_table(minus, names)
        summed = _weighted_sum(as_table(tree, names), weights, less)
        shapes = [tree[k].shape[1:] for k in names]
        parts = torch.split(summed, [math.prod(shape) for shape in shapes])
        found |= {k: part.reshape(shape) for k, part, shape in zip(names, parts, shapes, strict=True)}
    return found


def _weighted_sum(given: Tensor, weights: Tensor, less: Tensor | None) -> Tensor:
    """The same of two tables: one sum for each column."""
    wide = weights.to(given.device, torch.float64)[None]
    shared = less is not None and less.stride(0) == 0  # one row for all, which is converted once
    total = torch.empty(given.shape[1], dtype=torch.float64, device=given.device)
    step = COLUMNS if given.device.type == "cpu" else max(1, given.shape[1])
    for left in range(0, given.shape[1], step):
        columns = slice(left, left + step)
        base = less[:1, columns].to(torch.float64) if less is not None and shared else None
        for start in range(0, given.shape[0], CLIENTS_AT_ONCE):
            block = slice(start, start + CLIENTS_AT_ONCE)
            here = given[block, columns].to(torch.float64, copy=True)
            if base is not None:
                here -= base
            elif less is not None:
                here -= less[block, columns]
            summed = (wide[:, block] @ here)[0]
            total[columns] = total[columns] + summed if start else summed
    return total


def side_by_side(tree: Mapping[str, Tensor]) -> list[list[str]]:
    """The names of a stacked tree's tensors, in groups that are handled as one table each. On a CPU every tensor is a
    group of its own; on a GPU neighbours of one type and device are a group, as long as their copy is not too large."""
    found: list[list[str]] = []
    columns = 0
    kind: tuple[torch.dtype, torch.device] | None = None
    for name, value in tree.items():
        clients, *shape = value.shape
        more = math.prod(shape)
        together = (columns + more) * clients <= most_joined(value.device)
        if found and together and (value.dtype, value.device) == kind:
            found[-1].append(name)
            columns += more
        else:
            found.append([name])
            columns, kind = more, (value.dtype, value.device)
    return found


def most_joined(device: torch.device) -> int:
    """How many numbers, of all clients, are copied at most to lie side by side."""
    return 0 if device.type == "cpu" else JOINED_GPU


def as_table(tree: Mapping[str, Tensor], names: Sequence[str]) -> Tensor:
    """These tensors side by side, a row for each client. A single tensor is not copied, and rows that share one memory
    go on sharing it."""
    values = [tree[name] for name in names]
    clients = len(values[0])
    shared = clients > 1 and all(v.stride(0) == 0 for v in values)
    if shared:
        values = [v[:1] for v in values]
    tables = [v.reshape(len(v), math.prod(v.shape[1:])) for v in values]
    table = torch.cat(tables, 1) if len(tables) > 1 else tables[0]
    return table.expand(clients, -1) if shared else table


def moved_by(params: Mapping[str, Tensor], step: Mapping[str, Tensor]) -> Tree:
    """``params + step`` with the sum taken in float64 and rounded once, in the type of ``params``."""
    if not params:
        return {}
    # all tensors in one call each: a GPU waits while single ones are asked for
    wide = [torch.empty_like(v, dtype=torch.float64) for v in params.values()]
    found = {k: torch.empty_like(v) for k, v in params.items()}
    torch._foreach_copy_(wide, list(params.values()))
    torch._foreach_add_(wide, [step[k].to(torch.float64) for k in params])
    torch._foreach_copy_(list(found.values()), wide)
    return found


@dataclass
class PerClient:
    """Local settings that differ between clients; None means the run's own. One row a client of the cohort."""

    batch: Ids | None = None
    lr: Array | None = None
    per_class: Ids | None = None  # [k, classes]: how many samples of each class to train on

    def given(self) -> dict[str, Array]:
        """Those that differ, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def rows(self, index: Any) -> PerClient:
        """Some clients' settings."""
        return PerClient(**{name: value[index] for name, value in self.given().items()})

    @staticmethod
    def joined(settings: Sequence[PerClient]) -> PerClient:
        """The settings of several groups of clients, one after the other: those that every group has."""
        every = [some.given() for some in settings]
        common = set.intersection(*map(set, every))
        return PerClient(**{name: np.concatenate([some[name] for some in every]) for name in common})


@dataclass
class Cohort:
    """Who takes part, with which settings. Also what choosing them cost, for the log: notes, and bytes by kind."""

    clients: Ids
    settings: PerClient = field(default_factory=PerClient)
    notes: Mapping[str, Any] = field(default_factory=dict)
    up: Mapping[str, int] = field(default_factory=dict)
    down: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Leg:
    """A request: these clients train, each from this model.

    A round is one leg (Plain) or several (SEM hands models over between two). ``epochs`` is the share of the
    local budget to spend and ``done`` the share this visit has spent already, so that two halves make exactly
    the batches of one whole.
    """

    clients: Ids
    start: Tree  # one model for all, or stacked
    stacked: bool = False  # whether ``start`` has a client axis
    anchor: Tree | None = None  # the one model that drift is measured against; default: start
    epochs: float = 1.0
    done: float = 0.0
    settings: PerClient = field(default_factory=PerClient)
    carry: Update | None = None  # the unfinished visit that these rows go on with (moved, work, steps)
    closing: bool = True  # local training ends here, so parts may report
    upload: bool = True  # False: the client keeps its model, nothing is sent up
    # how the model came, which decides whose bytes; own: each goes on with the model it keeps, or ``start`` at first
    source: Literal["server", "peer", "relay", "own"] = "server"
    keeps: bool = False  # the client goes on with its model in a later round: it need not leave its machine
    # [k] float64: each client starts from this share of the model that it keeps and the rest of the anchor. A stacked
    # ``start`` holds the models that they keep; otherwise the clients have them
    blend: Tensor | None = None
    summable: bool = False  # only the models' weighted sum will be asked for, so an engine need not keep them


@dataclass
class Message:
    """An encoded change on its way up: what each ``upload`` part sends, the last one's message whole.

    ``shapes`` are those of what each part encoded. Both sides know the model, so they cost nothing.
    """

    sent: list[Tree] = field(default_factory=list)
    shapes: list[dict[str, Shape]] = field(default_factory=list)


@dataclass
class Update:
    """The answer to a Leg; it may hold fewer rows than were asked for.

    ``moved`` and ``work`` are summed over the legs of a visit. ``moved`` is (end - start). ``work`` is how far the
    local optimiser would have carried a weight under a constant gradient of 1: steps x learning rate for plain SGD.
    Their ratio is the mean gradient, also where a model was handed over or blended on the way (SCAFFOLD).

    ``reach`` is the part of ``work`` that is still in params - base. ``pulled`` is the same against the pull of the
    objectives (FedNova).
    """

    rows: Ids  # position in the Leg
    clients: Ids  # who answered
    base: Tree  # stacked; delta = params - base
    params: Tree  # stacked
    moved: Tree  # stacked
    work: Tensor  # [k] float64
    reach: Tensor  # [k] float64
    pulled: Tensor  # [k] float64
    lr: Tensor  # [k] float64: the learning rate of the last leg
    examples: Tensor  # [k] float64: what an update weighs
    steps: Tensor  # [k] int64
    samples: Tensor  # [k] int64: sample-steps spent
    loss: Tensor  # [k] float64: mean training loss
    uploads: dict[str, Tree] = field(default_factory=dict)  # part name -> stacked report
    memory: dict[str, Memory] = field(default_factory=dict)  # part name -> stacked client memory, if it lands
    # what parts asked to have measured, one value per row
    probes: dict[str, Tensor] = field(default_factory=dict)
    held: Tensor = field(default_factory=no_rows)  # [k] int64: how many samples each client has at hand
    drawn: Tensor = field(default_factory=no_rows)  # [k] int64: of how many of them it trained
    messages: list[Message] = field(default_factory=list)  # in place of the trained parameters, until decoded
    sent: Tensor = field(default_factory=no_rows)  # [k] int64: bytes of each upload, where it is encoded
    # [k] float64: |params - base|, where whoever trained told it
    went: Tensor = field(default_factory=no_rows)
    # [k] bool: whose numbers are finite, where only the sum of models was kept and whoever added them up has looked
    sound: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def weighted_delta(self, weights: Tensor, names: Iterable[str] | None = None) -> Tree:
        """Sum of weight x (params - base), in float64; of some names, or of all."""
        chosen = self.params if names is None else {k: self.params[k] for k in names}
        return weighted_sum(chosen, weights, minus=self.base)

    def take(self, index: Any) -> Update:
        """Some rows of this update."""
        at = torch.as_tensor(np.arange(len(self))[index], dtype=torch.int64)
        trees: dict[str, Any] = {n: rows(getattr(self, n), at) for n in TREES}
        vectors: dict[str, Any] = {n: getattr(self, n)[at] for n in VECTORS}
        nested: dict[str, Any] = {n: {p: rows(t, at) for p, t in getattr(self, n).items()} for n in NESTED}
        probes = {k: v[at] for k, v in self.probes.items()}
        return Update(self.rows[index], self.clients[index], **trees, **vectors, **nested, probes=probes)

    def then(self, after: Update) -> Update:
        """The same models one leg further: ``after`` trained this update's rows ``after.rows``.

        The result weighs n_i + n_p(i), as SEM's line 15 sends it.
        """
        at = torch.tensor(after.rows)
        return replace(
            after,
            rows=self.rows[after.rows],
            base=rows_at(self.base, after.rows, of=len(self)),
            examples=self.examples[at] + after.examples,
            samples=self.samples[at] + after.samples,
        )

    @staticmethod
    def joined(updates: Iterable[Update]) -> Update:
        """Updates one after the other; parts report either in all of them or in none."""
        parts = list(updates)
        first = parts[0]
        if len(parts) == 1:
            return first
        trees: dict[str, Any] = {n: join([getattr(u, n) for u in parts]) for n in TREES}
        vectors: dict[str, Any] = {n: torch.cat([getattr(u, n) for u in parts]) for n in VECTORS}
        nested: dict[str, Any] = {
            n: {p: join([getattr(u, n)[p] for u in parts]) for p in getattr(first, n)} for n in NESTED
        }
        ids = [np.concatenate([getattr(u, n) for u in parts]) for n in ("rows", "clients")]
        return Update(ids[0], ids[1], **trees, **vectors, **nested)

    def packed(self) -> Memory:
        """This update as one memory, to wait in State: a late answer, or a model in flight."""
        held: Memory = {"rows": torch.from_numpy(self.rows), "clients": torch.from_numpy(self.clients)}
        held |= {n: getattr(self, n) for n in VECTORS + NESTED}
        return held | {n: map_tensors(torch.Tensor.contiguous, getattr(self, n)) for n in TREES}

    @staticmethod
    def unpacked(tree: Memory, parts: Iterable[str]) -> Update:
        """The inverse of ``packed``; ``parts`` names those who may have reported. A checkpoint keeps no empty tree."""
        trees: dict[str, Any] = {n: tree.get(n, {}) for n in TREES}
        nested: dict[str, Any] = {n: {p: tree.get(n, {}).get(p, {}) for p in parts} for n in NESTED}
        vectors: dict[str, Any] = {n: tree[n].cpu() for n in VECTORS}
        ids = [tree[n].cpu().numpy() for n in ("rows", "clients")]
        return Update(ids[0], ids[1], **trees, **vectors, **nested)


TREES = ("base", "params", "moved")
VECTORS = ("work", "reach", "pulled", "lr", "examples", "steps", "samples", "loss")
NESTED = ("uploads", "memory")

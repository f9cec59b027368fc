"""Legs, updates, moments and rosters as plain values of a message, and back. Each is written out, nothing by its class.

The server keeps what it knows itself: of an update a site sends the trained model, and not what it began with or how
far it went, which the server works out of both in the same arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch

from unskew.arrays import Array
from unskew.core.held import Moment
from unskew.core.roster import Roster
from unskew.core.task import Sums
from unskew.core.types import NONE, Ids, Leg, Message, PerClient, Tree, Update, leaves, rows
from unskew.data.dataset import Dataset
from unskew.sites.messages import BadMessage

CARRIED = ("work", "reach", "pulled", "steps")
"""What a client goes on with from an unfinished visit, beside how far the model was moved."""

VECTORS = ("work", "reach", "pulled", "lr", "examples", "steps", "samples", "loss", "held", "drawn")
WHOLE = ("steps", "samples", "held", "drawn", "sent")
"""What an update says of each client in one number, and which of these are whole numbers."""


# --- to a site


def write_leg(leg: Leg, at: Ids) -> dict[str, Any]:
    """A leg as a site is told of it: the clients at these rows alone."""
    index = torch.from_numpy(at)
    carry = None
    if leg.carry is not None:
        before = leg.carry.take(at)
        carry = {name: getattr(before, name) for name in CARRIED} | {"moved": before.moved}
    settings = leg.settings.rows(at)
    return {
        "clients": leg.clients[at],
        "start": rows(leg.start, index) if leg.stacked else leg.start,
        "stacked": leg.stacked,
        "anchor": leg.anchor,
        "epochs": leg.epochs,
        "done": leg.done,
        "settings": {name: getattr(settings, name) for name in ("batch", "lr", "per_class")},
        "carry": carry,
        "closing": leg.closing,
        "upload": leg.upload,
    }


def read_leg(told: Mapping[str, Any], like: Tree, trainable: tuple[str, ...]) -> Leg:
    """The leg that a site is asked for; a model must be of the run's shapes."""
    clients, stacked = ids(told, "clients"), bool(told["stacked"])
    count = len(clients)
    start = tree_like(told["start"], like, count if stacked else None, "the model")
    anchor = None if told["anchor"] is None else tree_like(told["anchor"], like, None, "the global model")
    given = {k: None if v is None else np.asarray(v) for k, v in mapping(told, "settings").items()}
    for name, values in given.items():
        if values is not None and len(values) != count:
            raise BadMessage(f"{name} is not one a client")
    carry = None
    if told["carry"] is not None:
        moved = tree_like(told["carry"]["moved"], {k: like[k] for k in trainable}, count, "how far it went")
        numbers: dict[str, Any] = {name: vector(told["carry"][name], count, name) for name in CARRIED}
        nothing = torch.zeros(count, dtype=torch.float64)
        carry = Update(
            np.arange(count), clients, {}, {}, moved,
            **numbers, lr=nothing, examples=nothing, samples=nothing.long(), loss=nothing,
        )  # fmt: skip
    return Leg(
        clients, start, stacked, anchor, float(told["epochs"]), float(told["done"]), PerClient(**given),
        carry, bool(told["closing"]), bool(told["upload"]),
    )  # fmt: skip


def write_moment(moment: Moment, clients: Ids) -> dict[str, Any]:
    """A moment as these clients are told of it: nothing that was handed out to others."""
    at = np.flatnonzero(np.isin(moment.clients, clients))
    told = {part: {k: v[at] for k, v in numbers.items()} for part, numbers in moment.told.items()}
    return {
        "t": moment.t,
        "own": moment.own,
        "aside": moment.aside,
        "clients": np.asarray(moment.clients[at], np.int64),
        "told": told,
    }


def read_moment(told: Mapping[str, Any]) -> Moment:
    if told["aside"] not in (None, "test", "validation"):
        raise BadMessage("samples are asked for that were set aside for nothing")
    return Moment(told["t"], bool(told["own"]), told["aside"], ids(told, "clients"), mapping(told, "told"))


ROWS = ("sizes", "budget", "weigh", "pooled")


def write_roster(roster: Roster, clients: Ids) -> dict[str, Any]:
    """What the clients of a site may know of a roster: their own rows."""
    mine: dict[str, Any] = {name: np.asarray(getattr(roster, name)[clients], np.int64) for name in ROWS}
    return mine | {"clients": clients, "everyone": roster.clients, "mean_weight": float(roster.mean_weight)}


MOST_CLIENTS = 10_000_000


def read_roster(told: Mapping[str, Any], dataset: Dataset) -> Roster:
    """A roster in which nobody but these clients holds anything."""
    clients, everyone = ids(told, "clients"), int(told["everyone"])
    if not 0 < everyone <= MOST_CLIENTS or (
        len(clients) and not 0 <= clients.min() <= clients.max() < everyone
    ):
        raise BadMessage("its clients are not among those of the run")
    found: dict[str, Array] = {name: np.zeros(everyone, np.int64) for name in ROWS}
    for name in ROWS:
        found[name][clients] = ids(told, name)
    return Roster(dataset, **found, mean_weight=float(told["mean_weight"]))  # type: ignore[arg-type]


# --- from a site


def write_update(update: Update, versions: Mapping[str, int]) -> dict[str, Any]:
    """What leaves a site of an update; memories stay, and are named by their version."""
    return {
        "params": update.params,
        "vectors": {name: getattr(update, name) for name in VECTORS},
        "uploads": update.uploads,
        "sent": update.sent,
        "messages": [
            {"sent": m.sent, "shapes": [{k: list(s) for k, s in shapes.items()} for shapes in m.shapes]}
            for m in update.messages
        ],
        "memory": dict(versions),
    }


def read_update(
    told: Mapping[str, Any], leg: Leg, at: Ids, trainable: tuple[str, ...], names: tuple[str, ...]
) -> Update:
    """The update of the clients at these rows of a leg, as the server has it; ``names`` of parts that may report.

    What is not what was asked for is refused: other tensors, other shapes, other numbers of clients.
    """
    count, index = len(at), torch.from_numpy(at)
    template = {k: v[0] for k, v in leg.start.items()} if leg.stacked else leg.start
    base = {k: v[index] if leg.stacked else v.expand(count, *v.shape) for k, v in leg.start.items()}
    messages = [_read_upload(one, template, trainable) for one in sequence(told, "messages")]
    if messages and len(messages) != count:
        raise BadMessage("it encodes the updates of other clients than were asked")
    kept = [k for k in template if not messages or k not in trainable]
    params = tree_like(told["params"], {k: template[k] for k in kept}, count, "the trained model")
    moved: Tree = {}
    if not messages:
        moved = {k: params[k] - base[k] for k in trainable}
        if leg.carry is not None:
            before = leg.carry.take(at).moved
            moved = {k: v + before[k] for k, v in moved.items()}
    vectors: dict[str, Any] = {name: vector(mapping(told, "vectors")[name], count, name) for name in VECTORS}
    uploads = mapping(told, "uploads")
    if not set(uploads) <= set(names):
        raise BadMessage("it reports for a part that the method does not have")
    for part in uploads:
        for value in leaves(mapping(uploads, part)):
            if not isinstance(value, torch.Tensor) or value.dim() < 1 or len(value) != count:
                raise BadMessage(f"the report for {part} is not one a client")
    memory = {}
    for part, version in mapping(told, "memory").items():
        if type(version) is not int:
            raise BadMessage("a memory is named by something that is no number")
        memory[str(part)] = {"version": torch.full((count,), version, dtype=torch.int64)}
    sent = told["sent"]
    encoded = isinstance(sent, torch.Tensor) and len(sent) > 0
    return Update(
        np.asarray(at, np.int64), leg.clients[at], base, params, moved,
        **vectors, uploads=uploads, memory=memory, messages=messages,
        sent=vector(sent, count, "sent") if encoded else NONE,
    )  # fmt: skip


def _read_upload(told: Any, template: Tree, trainable: tuple[str, ...]) -> Message:
    """An encoded change. It cannot make a receiver take more memory than the model does."""
    if not isinstance(told, dict):
        raise BadMessage("an encoded update is none")
    largest = sum(template[k].numel() for k in trainable)
    shapes: list[dict[str, tuple[int, ...]]] = []
    for one in sequence(told, "shapes"):
        found = {str(k): tuple(int(n) for n in shape) for k, shape in one.items()}
        if sum(math.prod(s) for s in found.values()) > largest or any(
            n < 0 for s in found.values() for n in s
        ):
            raise BadMessage("an encoded update tells of more numbers than the model has")
        shapes.append(found)
    if shapes and shapes[0] != {k: tuple(template[k].shape) for k in trainable}:
        raise BadMessage("an encoded update is of another model")
    sent = sequence(told, "sent")
    for tree in sent:
        if not isinstance(tree, dict) or not all(isinstance(v, torch.Tensor) for v in tree.values()):
            raise BadMessage("an encoded update holds something that is no tensor")
    if len(sent) != len(shapes):
        raise BadMessage("an encoded update lacks the shapes of what it encodes")
    return Message(sent, shapes)


def write_sums(sums: Sums) -> dict[str, Array]:
    """What judging a model on clients' samples gives: tables, one row a client."""
    return {f.name: getattr(sums, f.name) for f in fields(sums) if f.name != "answers"}


def read_sums(told: Mapping[str, Any], like: Sums, count: int) -> Sums:
    """Sums of so many clients, as ``like`` has them."""
    found: dict[str, Any] = {}
    for f in fields(like):
        if f.name == "answers":
            continue
        value, expected = told.get(f.name), getattr(like, f.name)
        if not isinstance(value, np.ndarray) or value.shape != (count, *expected.shape[1:]):
            raise BadMessage(f"its {f.name} is not one row a client")
        if value.dtype.kind not in "if" or not np.isfinite(value).all() or (value.size and value.min() < 0):
            raise BadMessage(f"its {f.name} cannot be")
        found[f.name] = value
    return type(like)(**found)


def no_sums(like: Sums, count: int) -> Sums:
    """Sums of so many clients without a sample."""
    tables = {f.name: getattr(like, f.name) for f in fields(like) if f.name != "answers"}
    zeros: dict[str, Any] = {k: np.zeros((count, *v.shape[1:]), v.dtype) for k, v in tables.items()}
    return type(like)(**zeros)


# --- checks


def tree_like(told: Any, like: Tree, count: int | None, what: str) -> Tree:
    """Tensors of exactly these names, types and shapes, with a row a client where ``count`` is given."""
    if not isinstance(told, dict) or set(told) != set(like):
        raise BadMessage(f"{what} is made of other tensors than the run's model")
    found: Tree = {}
    for name, expected in like.items():
        shape = tuple(expected.shape) if count is None else (count, *expected.shape)
        value = told[name]
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != shape:
            raise BadMessage(f"{name} of {what} has another shape than the run's model")
        if value.dtype != expected.dtype:
            raise BadMessage(f"{name} of {what} is of another type than the run's model")
        found[name] = value
    return found


def vector(told: Any, count: int, name: str) -> torch.Tensor:
    """One number a client."""
    kind = torch.int64 if name in WHOLE else torch.float64
    if not isinstance(told, torch.Tensor) or told.shape != (count,) or told.dtype != kind:
        raise BadMessage(f"{name} is not one number a client")
    if name in (*WHOLE, "examples") and bool((told < 0).any()):
        raise BadMessage(f"{name} cannot be below 0")
    if name not in (*WHOLE, "loss") and not bool(torch.isfinite(told).all()):
        raise BadMessage(
            f"{name} is no finite number"
        )  # NaN in a model is the round's to refuse, by its client
    return told


def ids(told: Mapping[str, Any], name: str) -> Ids:
    value = told.get(name)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != np.int64:
        raise BadMessage(f"{name} is no list of whole numbers")
    return value


def mapping(told: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = told.get(name)
    if not isinstance(value, dict):
        raise BadMessage(f"{name} has no names")
    return value


def sequence(told: Mapping[str, Any], name: str) -> list[Any]:
    value = told.get(name)
    if not isinstance(value, list):
        raise BadMessage(f"{name} is no list")
    return value

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
from unskew.core.faults import finite
from unskew.core.held import Moment
from unskew.core.roster import Roster
from unskew.core.task import Sums
from unskew.core.types import Ids, Leg, Message, PerClient, Tree, Update, leaves, no_rows, rows
from unskew.core.visits import change_norms
from unskew.data.dataset import Dataset
from unskew.sites.messages import BadMessage
from unskew.sites.values import ids as ids
from unskew.sites.values import mapping as mapping
from unskew.sites.values import sequence as sequence
from unskew.sites.values import tree_like as tree_like
from unskew.sites.values import vector as vector

STAND_IN = "kept"
"""The number that stands for a model that its client keeps: how far it went in this leg."""

CARRIED = ("work", "reach", "pulled", "steps")
"""What a client goes on with from an unfinished visit, beside how far the model was moved."""

VECTORS = ("work", "reach", "pulled", "lr", "examples", "steps", "samples", "loss", "held", "drawn")
"""What an update says of each client in one number."""


# --- to a site


def write_leg(leg: Leg, at: Ids) -> dict[str, Any]:
    """A leg as a site is told of it: the clients at these rows alone."""
    index = torch.from_numpy(at)
    carry = None
    if leg.carry is not None:
        before = leg.carry.take(at)
        carry = {name: getattr(before, name) for name in CARRIED}
        # who keeps a model knows how far it went
        carry["moved"] = before.moved if leg.blend is None else None
    settings = leg.settings.rows(at)
    return {
        "clients": leg.clients[at],
        "start": rows(leg.start, index) if leg.stacked else leg.start,
        "stacked": leg.stacked,
        "anchor": None if leg.anchor is leg.start else leg.anchor,
        "anchored": leg.anchor is not None,
        "epochs": leg.epochs,
        "done": leg.done,
        "settings": dict(vars(settings)),
        "carry": carry,
        "closing": leg.closing,
        "upload": leg.upload,
        "own": leg.source == "own",
        "keeps": leg.keeps,
        "blend": None if leg.blend is None else leg.blend[index],
    }


def read_leg(told: Mapping[str, Any], like: Tree, trainable: tuple[str, ...]) -> Leg:
    """The leg that a site is asked for; a model must be of the run's shapes."""
    clients, stacked = ids(told, "clients"), bool(told["stacked"])
    count = len(clients)
    start = tree_like(told["start"], like, count if stacked else None, "the model")
    anchor = start if told["anchored"] and not stacked else None
    if told["anchor"] is not None:
        anchor = tree_like(told["anchor"], like, None, "the global model")
    blend = None if told["blend"] is None else vector(told["blend"], count, "blend")
    if blend is not None and (stacked or anchor is None):
        raise BadMessage("models that clients keep are to be blended with nothing")
    given = {k: None if v is None else np.asarray(v) for k, v in mapping(told, "settings").items()}
    for name, values in given.items():
        if values is not None and len(values) != count:
            raise BadMessage(f"{name} is not one a client")
    carry = None
    if told["carry"] is not None:
        moved = told["carry"]["moved"]
        if blend is None:
            moved = tree_like(moved, {k: like[k] for k in trainable}, count, "how far it went")
        elif moved is not None:
            raise BadMessage("who keeps a model is told how far it went")
        numbers: dict[str, Any] = {name: vector(told["carry"][name], count, name) for name in CARRIED}
        nothing = torch.zeros(count, dtype=torch.float64)
        carry = Update(
            np.arange(count), clients, {}, {}, moved or {},
            **numbers, lr=nothing, examples=nothing, samples=nothing.long(), loss=nothing,
        )  # fmt: skip
    return Leg(
        clients, start, stacked, anchor, float(told["epochs"]), float(told["done"]), PerClient(**given),
        carry, bool(told["closing"]), bool(told["upload"]), "own" if told["own"] else "server",
        bool(told["keeps"]), blend,
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


def write_update(update: Update, versions: Mapping[str, int], keeps: bool = False) -> dict[str, Any]:
    """What leaves a site of an update; memories stay, and are named by their version, and so do models that clients
    keep: of each is told how far it went, or that it is not finite."""
    params = update.params
    if keeps:
        gone = torch.tensor(change_norms(update), dtype=torch.float64)
        gone[torch.from_numpy(~finite(update))] = torch.nan
        params = {STAND_IN: gone}
    return {
        "params": params,
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
    if leg.blend is not None and leg.anchor is not None:  # what a client began with is its own blend
        base = {k: v.expand(count, *v.shape) for k, v in leg.anchor.items()}
    if leg.keeps:
        none = torch.zeros(count, dtype=torch.float64)
        template, base, trainable = {STAND_IN: none.sum()}, {STAND_IN: none}, ()
    messages = [_read_upload(one, template, trainable) for one in sequence(told, "messages")]
    if messages and len(messages) != count:
        raise BadMessage("it encodes the updates of other clients than were asked")
    kept = [k for k in template if not messages or k not in trainable]
    params = tree_like(told["params"], {k: template[k] for k in kept}, count, "the trained model")
    moved: Tree = {}
    if not messages and leg.blend is None:
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
        sent=vector(sent, count, "sent") if encoded else no_rows(),
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

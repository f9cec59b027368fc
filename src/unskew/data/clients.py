"""Clients' own data, one by one, as a federation: arrays, frames, mapped files, torch data sets."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import Place, no_column
from unskew.data.dataset import Dataset, Kind, channel_moments, hold_out
from unskew.data.mapped import Writer, is_mapped
from unskew.data.own import class_codes, plain_array, sample_array
from unskew.errors import InputError

AT_ONCE = 1 << 24
"""Numbers of a block that is read, checked and written at a time: 64 MB of float32."""

FORMS = "(x, y), (x, y, x_test, y_test), a DataFrame, or a torch data set that has a length"


class Gathered(NamedTuple):
    """Clients' data in one place: the pool and the test set, and whose is what (see ``Federation``)."""

    dataset: Dataset
    indices: Array
    offsets: Array
    names: tuple[str, ...]
    tests: Array


@dataclass
class Side:
    """Some samples of one client: how many, their labels, and a way to read a stretch of them."""

    where: str
    y: Array
    read: Callable[[int, int], Array]
    raw: Any = None  # the array itself, where there is one

    def __len__(self) -> int:
        return len(self.y)


def gather_clients(
    clients: Mapping[str, Any],
    *,
    labels: Sequence[str] | None,
    test: float,
    seed: int,
    name: str,
    kind: Kind | None,
    on_disk: bool | str | os.PathLike[str] | None,
    **columns: Any,
) -> Gathered:
    """What ``Federation.from_clients`` makes a federation of; ``columns`` is what it says of DataFrames' columns."""
    if not isinstance(clients, Mapping) or not clients:
        raise InputError(f"from_clients takes a dictionary of clients' names, each with {FORMS}")
    names = tuple(str(client) for client in clients)
    if len(set(names)) < len(names):
        twice = next(who for who, count in Counter(names).items() if count > 1)
        raise InputError(f"two clients are called {twice!r}; give every client its own name")
    given = list(clients.values())
    if any(_is_frame(one) or (isinstance(one, (tuple, list)) and one and _is_frame(one[0])) for one in given):
        return _frames(names, given, test, seed, name, columns)
    for setting in ("label", "features", "drop", "impute"):
        if columns[setting]:
            raise InputError(f"{setting} is about the columns of DataFrames, and these clients have none")
    if columns["fit"] != "all":
        raise InputError("fit=client is for DataFrames; arrays are scaled by the means of all clients")
    sides = [_sides(one, f"client {who!r}") for who, one in zip(names, given, strict=True)]
    return _joined(names, sides, labels, test, seed, name, kind, on_disk)


def _joined(
    names: tuple[str, ...],
    sides: list[tuple[Side, Side | None]],
    labels: Sequence[str] | None,
    test: float,
    seed: int,
    name: str,
    kind: Kind | None,
    on_disk: bool | str | os.PathLike[str] | None,
) -> Gathered:
    """Clients' samples in one pool, client after client, and their test samples in one test set."""
    named = {s.where: s.y for pair in sides for s in pair if s is not None}
    classes, coded = class_codes(named, labels)
    shape, dtype, found = _form([s for pair in sides for s in pair if s is not None], kind)
    held = [
        hold_out(coded[train.where], test, seed) if tests is None else np.zeros(len(train), bool)
        for train, tests in sides
    ]
    counts = [int((~mask).sum()) for mask in held]
    tested = [
        int(mask.sum()) if tests is None else len(tests) for mask, (_, tests) in zip(held, sides, strict=True)
    ]
    if not sum(tested) and test > 0:
        raise InputError(
            f"no client of {name} has two samples of a class, so none can be held out; give test data or test=0"
        )
    stay = on_disk if on_disk is not None else any(is_mapped(_base(s.raw)) for s, _ in sides)
    folder = Path(stay) if isinstance(stay, (str, os.PathLike)) else None
    whole = _one_file(sides, shape, dtype, found) if stay and not any(mask.any() for mask in held) else None

    def pool(parts: list[tuple[Side, Array]], which: str) -> Array:
        rows = sum(int(mask.sum()) for _, mask in parts)
        writer = Writer(folder, which) if stay and rows else None
        memory = None if writer else np.empty((rows, *shape), dtype)
        at = 0
        for side, mask in parts:
            step = max(1, AT_ONCE // max(1, int(np.prod(shape))))
            for start in range(0, len(side), step):
                chosen = mask[start : start + step]
                if not chosen.any():
                    continue
                block = _block(side, start, min(len(side), start + step), shape, found)
                block = block[chosen].astype(dtype, copy=False)
                if writer:
                    writer.write(block)
                else:
                    assert memory is not None
                    memory[at : at + len(block)] = block
                at += len(block)
        if writer:
            return writer.array((rows, *shape), dtype)
        assert memory is not None
        return memory

    everything = [(s, ~mask) for (s, _), mask in zip(sides, held, strict=True)]
    testing = [
        (s, mask) if t is None else (t, np.ones(len(t), bool))
        for (s, t), mask in zip(sides, held, strict=True)
    ]
    x = whole if whole is not None else pool(everything, "x")
    mean, std = channel_moments(x)
    dataset = Dataset(
        name,
        x,
        np.concatenate([coded[side.where][mask] for side, mask in everything]),
        pool(testing, "x_test"),
        np.concatenate([coded[side.where][mask] for side, mask in testing]),
        classes,
        found,
        {"client": np.repeat(np.array(names), counts)},
        mean,
        std,
        "clients' own data",
    )
    offsets = np.concatenate([[0], np.cumsum(counts)])
    tests = np.concatenate([[0], np.cumsum(tested)])
    return Gathered(dataset, np.arange(len(dataset)), offsets, names, tests)


def _sides(given: Any, where: str) -> tuple[Side, Side | None]:
    """A client's training samples, and its test samples if it brings any."""
    if _is_torch(given):
        return _torch_side(given, where), None
    if isinstance(given, (tuple, list)):
        if len(given) == 2 and all(map(_is_torch, given)):
            return _torch_side(given[0], where), _torch_side(given[1], f"{where} (test)")
        if len(given) in (2, 4):
            train = _array_side(given[0], given[1], where)
            return train, _array_side(given[2], given[3], f"{where} (test)") if len(given) == 4 else None
    raise InputError(f"{where} has {_kind_of(given)}; give {FORMS}")


def _array_side(x: Any, y: Any, where: str) -> Side:
    samples, labels = plain_array(x, f"x of {where}"), plain_array(y, f"y of {where}")
    if labels.ndim != 1 or samples.ndim < 2 or len(labels) != len(samples) or not len(labels):
        raise InputError(
            f"x of {where} has the shape {samples.shape} and y {labels.shape}; give one row of x and one label a sample"
        )
    return Side(where, labels, lambda start, stop: np.asarray(samples[start:stop]), samples)


def _torch_side(given: Any, where: str) -> Side:
    """A torch data set's samples; its labels are read once, its samples as they are needed."""
    try:
        size = len(given)
    except (TypeError, NotImplementedError):
        raise InputError(
            f"{where} has a torch data set without a length; give one that knows how many it holds"
        ) from None
    if not size:
        raise InputError(f"{where} has an empty torch data set; leave the client out")

    def item(k: int) -> tuple[Any, Any]:
        found = given[k]
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise InputError(f"sample {k} of {where} is no pair (x, y) but {_kind_of(found)}")
        return found[0], found[1]

    tensors = getattr(given, "tensors", None)
    if tensors is not None and len(tensors) == 2:  # a TensorDataset has them whole
        return _array_side(tensors[0], tensors[1], where)
    y = plain_array([_label(item(k)[1]) for k in range(size)], f"y of {where}")

    def read(start: int, stop: int) -> Array:
        return plain_array([np.asarray(item(k)[0]) for k in range(start, stop)], f"x of {where}")

    return Side(where, y, read)


def _label(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _form(sides: Sequence[Side], kind: Kind | None) -> tuple[tuple[int, ...], Any, Kind]:
    """What a sample is: the same for every client, bytes only where all have bytes."""
    first, found = sample_array(sides[0].read(0, min(len(sides[0]), 8)), f"x of {sides[0].where}", kind)
    types = {first.dtype}
    for side in sides[1:]:
        other, _ = sample_array(side.read(0, min(len(side), 8)), f"x of {side.where}", found)
        if other.shape[1:] != first.shape[1:]:
            raise InputError(
                f"samples of {side.where} have the shape {other.shape[1:]}, those of {sides[0].where} {first.shape[1:]}"
            )
        types.add(other.dtype)
    return first.shape[1:], first.dtype if len(types) == 1 else np.dtype(np.float32), found


def _block(side: Side, start: int, stop: int, shape: tuple[int, ...], kind: Kind) -> Array:
    block, _ = sample_array(side.read(start, stop), f"x of {side.where}", kind)
    if block.shape[1:] != shape:
        raise InputError(
            f"samples {start} to {stop - 1} of {side.where} have the shape {block.shape[1:]}, others {shape}"
        )
    return block


def _one_file(
    sides: list[tuple[Side, Side | None]], shape: tuple[int, ...], dtype: Any, kind: Kind
) -> Array | None:
    """The pool as it lies on disk already: clients that are neighbouring stretches of one file, ready to be used."""
    places = [is_mapped(_base(train.raw)) for train, _ in sides]
    end, row = None, int(np.prod(shape)) * np.dtype(dtype).itemsize
    for place, (train, _) in zip(places, sides, strict=True):
        if place is None or np.dtype(place.dtype) != dtype:
            return None
        if place.shape[1:] != shape and (shape[0], *place.shape[1:]) != (1, *shape[1:]):
            return None
        if place.file != places[0].file or (end is not None and place.offset != end):  # type: ignore[union-attr]
            return None
        end = place.offset + len(train) * row
    first = places[0]
    assert first is not None
    found = replace(first, shape=(sum(len(train) for train, _ in sides), *shape)).open()
    for start in range(0, len(found), step := max(1, AT_ONCE * 4 // max(1, row))):
        sample_array(found[start : start + step], "x", kind)  # every value is looked at once
    return found


def _base(raw: Any) -> Any:
    return raw if isinstance(raw, np.ndarray) else None


def _frames(
    names: tuple[str, ...], given: list[Any], test: float, seed: int, name: str, table: dict[str, Any]
) -> Gathered:
    """Frames of the same columns, one under the other, with a column that says whose a row is."""
    import pandas

    from unskew.data.tables import Table, plain_frame

    pairs = [
        _frame_pair(one, f"the frame of client {who!r}", table) for who, one in zip(names, given, strict=True)
    ]
    label = table["label"] or Table().label_of(pairs[0][0], Place(f"the frame of client {names[0]!r}", 0))
    if label not in pairs[0][0].columns:
        raise no_column("label", label, pairs[0][0], f"the frame of client {names[0]!r}")
    owner = "client"
    while any(owner in frame.columns for pair in pairs for frame in pair if frame is not None):
        owner += "_"
    train, held = [], []
    for who, (own, tests) in zip(names, pairs, strict=True):
        for frame in (own, tests):
            if frame is not None and (lacking := [c for c in pairs[0][0].columns if c not in frame.columns]):
                raise no_column("shared", lacking[0], frame, f"the frame of client {who!r}")
        if tests is None:
            own = plain_frame(own, "the frame")
            mask = hold_out(class_codes({"y": own[label].to_numpy()}, None)[1]["y"], test, seed)
            own, tests = own[~mask], own[mask]
        train.append(own.assign(**{owner: who}))
        held.append(tests.assign(**{owner: who}))
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()} | {
        "label": label,
        "client": owner,
    }
    place = Place("the clients' frames", 0)
    rows, rows_test = (pandas.concat(frames, ignore_index=True) for frames in (train, held))
    tested_on = None
    if len(rows_test):
        tested_on = plain_frame(rows_test, "the test frames"), Place("the clients' test frames", 0)
    dataset = Table(test=0.0, **settings).dataset(
        plain_frame(rows, place.where), place, name, "clients' own data", tested_on
    )
    order = {who: k for k, who in enumerate(names)}
    mine = np.array([order[who] for who in dataset.columns[owner]], np.int64)
    theirs = np.array([order[who] for who in dataset.columns_test.get(owner, ())], np.int64)
    count, tested = (np.bincount(of, minlength=len(names)) for of in (mine, theirs))
    offsets, tests_at = (np.concatenate([[0], np.cumsum(n)]) for n in (count, tested))
    # frames were put together client by client, so the test rows lie in this order already
    return Gathered(dataset, np.argsort(mine, kind="stable"), offsets, names, tests_at)


def _frame_pair(given: Any, where: str, table: dict[str, Any]) -> tuple[Any, Any]:
    """(training rows, test rows or None), labels as a column."""
    if _is_frame(given):
        return given, None
    if isinstance(given, (tuple, list)) and len(given) == 2 and all(map(_is_frame, given)):
        return given[0], given[1]
    if isinstance(given, (tuple, list)) and len(given) in (2, 4) and _is_frame(given[0]):
        table["label"] = table["label"] or str(getattr(given[1], "name", None) or "label")
        column = table["label"]
        sides = [
            x.assign(**{column: plain_array(y, f"y of {where}")})
            for x, y in zip(given[::2], given[1::2], strict=True)
        ]
        return sides[0], sides[1] if len(sides) == 2 else None
    raise InputError(
        f"{where} must be a DataFrame, (train, test), (x, y) or (x, y, x_test, y_test), not {_kind_of(given)}"
    )


def _is_frame(value: Any) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def _is_torch(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.utils.data.Dataset)


def _kind_of(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, (tuple, list)) else "")

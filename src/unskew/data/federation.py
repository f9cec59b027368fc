"""A federation: a pool of samples and, for each client, a list of places in it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.arrays import NUMBERS_AT_ONCE, Array, in_few_bytes, small_type, told_once
from unskew.data.aside import Aside, Purpose, Split, refuse_nothing, split_clients, split_pool
from unskew.data.dataset import Dataset, Kind
from unskew.errors import InputError

if TYPE_CHECKING:
    from unskew.data.cells import Impute
    from unskew.data.columns import Fit
    from unskew.network import Wireless


EVERYBODY = slice(None)
"""All clients, wherever some of them may be named."""


def census(y: Array, indices: Array, offsets: Array, classes: int) -> Array:
    """The (client x class) matrix of label counts, in few bytes; made some clients at a time.

    ``offsets`` may be a stretch of all: then these clients' rows are made.
    """
    clients, sizes = len(offsets) - 1, np.diff(offsets)
    counts = np.zeros((clients, classes), small_type(int(sizes.max(initial=0)), clients))
    end, first = int(offsets[-1]), 0
    while first < clients:
        # of the type of the offsets, which would all be converted otherwise
        reach = offsets.dtype.type(min(end, int(offsets[first]) + NUMBERS_AT_ONCE))
        last = int(np.searchsorted(offsets, reach, side="right")) - 1
        last = max(first + 1, min(last, clients, first + NUMBERS_AT_ONCE // classes))
        owner = np.repeat(np.arange(last - first, dtype=np.int64), sizes[first:last])
        cell = owner * classes + y[indices[offsets[first] : offsets[last]]]
        counts[first:last] = np.bincount(cell, minlength=(last - first) * classes).reshape(-1, classes)
        first = last
    return counts


def census_of(y: Array, indices: Array, offsets: Array, classes: int, clients: Array) -> Array:
    """The same rows of these clients alone, in any order."""
    begin, end = (np.asarray(offsets[clients + more], np.int64) for more in (0, 1))
    sizes = end - begin
    ends = np.cumsum(sizes)
    places = np.arange(sizes.sum()) + np.repeat(begin - ends + sizes, sizes)
    cell = np.repeat(np.arange(len(clients)), sizes) * classes + y[indices[places]]
    return np.bincount(cell, minlength=len(clients) * classes).reshape(-1, classes)


def shown_name(names: Sequence[str] | None, client: int) -> str:
    """What to call a client where people read: its name where clients have names, else its number."""
    if names is None:
        return str(client)
    return " ".join(names[client].split()) or "(no name)"


@dataclass(frozen=True, eq=False)
class Federation:
    """A data set dealt to clients. Client k holds ``indices[offsets[k]:offsets[k + 1]]`` of the pool.

    Clients are rows of offsets, so a million of them cost megabytes, long lists being kept in the smallest type that
    holds them; sharing or oversampling extends index lists and never copies a sample. ``budget`` is the size whose
    epochs a client spends and ``weigh`` the size its update weighs; both are what it holds unless data was added or
    pooled. ``pooled`` is
    how many clients' budgets this one spends, where clients were pooled into it, and 0 elsewhere. ``network``
    links the clients (``unskew.network``), where the run has one.
    ``names`` are the clients' own, such as the sites of a table, where they have any; ``name_of(k)`` is what to
    show for a client in either case. ``tests`` and ``validation`` are samples that nobody trains on and that no list
    of a client has: those that each client is tested by on its own, where it has any, and those that rounds and
    settings are chosen by (``set_aside``). ``tests`` may be given as offsets into the test set: client k's are
    ``x_test[tests[k]:tests[k + 1]]``.
    """

    dataset: Dataset
    indices: Array
    offsets: Array
    budget: Array = None  # type: ignore[assignment]  # filled in below
    weigh: Array = None  # type: ignore[assignment]
    pooled: Array = None  # type: ignore[assignment]
    network: Wireless | None = None
    names: tuple[str, ...] | None = None
    tests: Aside | Array | None = None
    validation: Aside | None = None

    def __post_init__(self) -> None:
        for name in ("indices", "offsets"):
            given = np.asarray(getattr(self, name))
            object.__setattr__(self, name, given if given.dtype.kind in "iu" else given.astype(np.int64))
        n = len(self.dataset)
        if len(self.offsets) < 2 or self.offsets[0] != 0 or self.offsets[-1] != len(self.indices):
            raise InputError("a federation's offsets must start at 0 and end at the number of indices")
        if np.any(self.offsets[1:] < self.offsets[:-1]):
            raise InputError("a federation's offsets must not fall")
        if len(self.indices) and (self.indices.min() < 0 or self.indices.max() >= n):
            raise InputError(
                f"a federation's indices must lie in 0..{n - 1}, the samples of {self.dataset.name}"
            )
        object.__setattr__(self, "indices", in_few_bytes(self.indices, n - 1))
        object.__setattr__(self, "offsets", in_few_bytes(self.offsets, len(self.indices)))
        nobody = np.broadcast_to(np.int64(0), self.sizes.shape)
        for size, usual in (("budget", self.sizes), ("weigh", self.sizes), ("pooled", nobody)):
            if getattr(self, size) is None:
                object.__setattr__(self, size, usual)
        if self.names is not None and len(self.names) != self.clients:
            raise InputError(
                f"a federation of {self.clients} clients needs as many names, not {len(self.names)}"
            )
        if self.tests is not None and not isinstance(self.tests, Aside):
            offsets = np.asarray(self.tests, np.int64)
            if len(offsets) != self.clients + 1 or offsets[-1] != len(self.dataset.y_test):
                raise InputError(
                    "a federation's test offsets must be one a client and end at the number of test samples"
                )
            object.__setattr__(self, "tests", Aside(np.arange(offsets[-1]), offsets, in_test=True))

    @classmethod
    def from_clients(
        cls,
        clients: Mapping[str, Any],
        *,
        labels: Sequence[str] | None = None,
        test: float = 0.2,
        seed: int = 0,
        name: str = "own data",
        kind: Kind | None = None,
        on_disk: bool | str | os.PathLike[str] | None = None,
        label: str | None = None,
        features: Sequence[str] = (),
        drop: Sequence[str] = (),
        impute: Impute | None = None,
        fit: Fit = "all",
    ) -> Federation:
        """A federation of clients' own data: ``Federation.from_clients({"north": (x, y), "south": (x, y)})``.

        A client has ``(x, y)``, or ``(x, y, x_test, y_test)`` with test data of its own; arrays, tensors and lists as
        in ``from_arrays``. Or it has a DataFrame whose column ``label`` is the label, or ``(train, test)`` of these, or
        ``(frame, y)``; then ``features``, ``drop``, ``impute`` and ``fit`` are as for tables. Or it has a torch data
        set with a length, or ``(train, test)`` of these. Of a client without test data the share ``test`` of each of
        its classes is held out, drawn by ``seed``. The test set is that of all clients together; what a client is
        judged by on its own (``evaluate_clients``) is its part of it.

        Memory-mapped arrays stay on disk: neighbouring stretches of one file are used where they lie, others are
        written into one temporary file, block by block. ``on_disk=True``, or a folder, does so with any data, False
        reads it into memory.
        """
        from unskew.data.clients import gather_clients

        dataset, indices, offsets, names, tests = gather_clients(
            clients, labels=labels, test=test, seed=seed, name=name, kind=kind, on_disk=on_disk,
            label=label, features=features, drop=drop, impute=impute, fit=fit,
        )  # fmt: skip
        return cls(dataset, indices, offsets, names=names, tests=tests)

    @property
    def clients(self) -> int:
        """How many clients there are."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Array:
        """How many samples each client holds; said once where many hold equally many."""
        return told_once(np.diff(self.offsets))

    @property
    def typical(self) -> int:
        """The median size of the clients that hold any samples."""
        return int(np.median(self.sizes[self.sizes > 0])) if len(self.indices) else 0

    @cached_property
    def counts(self) -> Array:
        """The (client x class) matrix of label counts."""
        return self.take_census().astype(np.int64, copy=False)

    def take_census(self, clients: Array | slice = EVERYBODY) -> Array:
        """The rows of these clients, of a stretch in few bytes; counted anew each time."""
        data = self.dataset
        if isinstance(clients, slice):
            first, last, step = clients.indices(self.clients)
            if step == 1 and first <= last:
                return census(data.y, self.indices, self.offsets[first : last + 1], data.classes)
        # rows may be asked for as a table's are: by masks, in steps, from the end
        asked = np.arange(self.clients)[clients]
        rows = census_of(data.y, self.indices, self.offsets, data.classes, np.atleast_1d(asked))
        return rows if asked.ndim else np.asarray(rows[0])

    def move_lists(self, indices: Array, offsets: Array) -> None:
        """Keep the same lists in other memory, such as one that several processes share, and no second time."""
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "offsets", offsets)

    def name_of(self, client: int) -> str:
        """What to call a client where people read: its name where clients have names, else its number."""
        return shown_name(self.names, int(client))

    def samples(self, client: int) -> Array:
        """The places in the pool that a client holds."""
        return np.asarray(self.indices[self.offsets[client] : self.offsets[client + 1]], np.int64)

    @property
    def aside(self) -> dict[Purpose, Aside]:
        """What was set aside, by what for."""
        given: dict[Purpose, Any] = {"test": self.tests, "validation": self.validation}
        return {purpose: found for purpose, found in given.items() if found is not None}

    def set_aside(
        self,
        client_test: float | None = None,
        validation: float | None = None,
        validation_of: Literal["all", "client"] = "all",
        seed: int = 0,
    ) -> Federation:
        """The same clients with some of their samples set aside, never to be trained on; drawn by ``seed``.

        ``client_test`` is the share of every client's samples that it is tested by, alike in all its classes, never
        fewer than one where it has two. ``validation`` is the share of what is left to choose rounds and settings by:
        of each class of all samples, for the server, or with ``validation_of="client"`` of every client's own, where it
        stays.
        """
        found, y = self, self.dataset.y
        if client_test is not None:
            if isinstance(self.tests, Aside):
                raise InputError(
                    "these clients have test data of their own already; leave client_test out, or give the share to "
                    "from_clients: test=0.2"
                )
            split = split_clients(y, found.indices, found.offsets, client_test, seed, "test")
            found = found._parted(refuse_nothing(split, "client_test", client_test), "tests")
        if validation is not None:
            lists = y, found.indices, found.offsets
            if validation_of == "client":
                split = split_clients(*lists, validation, seed, "validation")
            else:
                split = split_pool(*lists, validation, seed)
            found = found._parted(refuse_nothing(split, "validation", validation), "validation")
        return found

    def _parted(self, split: Split, name: str) -> Federation:
        changes: dict[str, Any] = {name: split.aside}
        changes |= {size: np.maximum(0, getattr(self, size) - split.taken) for size in ("budget", "weigh")}
        return replace(self, indices=split.indices, offsets=split.offsets, **changes)

    def __repr__(self) -> str:
        return f"Federation({self.dataset.name!r}, {self.clients} clients, {len(self.indices)} samples)"

"""What the server knows of its clients: who there is and how much each holds. Never a sample, never a place in a pool.

Label counts are there where they were given: a simulation gives them, a real site may not. A part that needs them and
has none is told so in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from unskew.arrays import MANY_ROWS, NUMBERS_AT_ONCE, Array, added, in_few_bytes, small_type, told_once
from unskew.core.sharing import Sharing
from unskew.data.aside import Purpose
from unskew.data.dataset import Dataset
from unskew.data.federation import EVERYBODY, Federation, shown_name
from unskew.errors import InputError
from unskew.network import Wireless

NO_COUNTS = (
    "needs to know how many samples of each class every client holds, and these label counts were not given; give "
    "them, or choose another method"
)

Derived = TypeVar("Derived")

TakeCensus = Callable[[Array | slice], Array]
"""Counts the labels of the clients that it is given, a row each."""


class Roster:
    """Clients 0 to K - 1, as the server's half of a round knows them.

    - ``sizes``: how many samples each holds.
    - ``budget``: the size whose epochs it spends.
    - ``weigh``: the size its update weighs.
    - ``pooled``: how many clients' budgets it spends, where clients were pooled into it; else 0.
    - ``dataset``: what samples look like (shape, classes, kind), and the server's own test set; its pool is empty.
    - ``sharing``: what raw samples were moved before round 0.
    - ``network``: how clients are linked.
    - ``aside``: by purpose, how many samples each client has set aside that it never trains on; None where they are the
      server's own.
    """

    def __init__(
        self,
        dataset: Dataset,
        sizes: Array,
        *,
        budget: Array | None = None,
        weigh: Array | None = None,
        pooled: Array | None = None,
        counts: Array | TakeCensus | None = None,
        names: tuple[str, ...] | None = None,
        network: Wireless | None = None,
        sharing: tuple[Sharing, ...] = (),
        mean_weight: float | None = None,
        aside: Mapping[Purpose, Array | None] | None = None,
    ):
        self.dataset, self.sizes = dataset, np.asarray(sizes)
        self.budget = self.sizes if budget is None else budget
        self.weigh = self.sizes if weigh is None else weigh
        self.pooled = np.broadcast_to(np.int64(0), self.sizes.shape) if pooled is None else pooled
        self.names, self.network, self.sharing = names, network, sharing
        self.aside = aside or {}
        self.mean_weight = float(self.weigh.mean()) if mean_weight is None else mean_weight
        self._counts = counts
        self._lifted: tuple[Hashable, Roster] | None = None

    @classmethod
    def of(cls, federation: Federation, counts: bool = True) -> Roster:
        """What a simulation's server knows of a federation; ``counts``: whether label counts are given to it."""
        return cls(
            without_pool(federation.dataset),
            federation.sizes,
            budget=federation.budget,
            weigh=federation.weigh,
            pooled=federation.pooled,
            counts=federation.take_census if counts else None,
            names=federation.names,
            network=federation.network,
            aside={purpose: found.sizes for purpose, found in federation.aside.items()},
        )

    @property
    def clients(self) -> int:
        """How many there are."""
        return len(self.sizes)

    @property
    def ids(self) -> Array:
        """Every client's number."""
        return np.arange(self.clients)

    def name_of(self, client: int) -> str:
        """What to call a client where people read: its name where clients have names, else its number."""
        return shown_name(self.names, int(client))

    @property
    def counted(self) -> bool:
        """Whether label counts were given."""
        return self._counts is not None

    @cached_property
    def counts(self) -> Array:
        """The (client x class) matrix of label counts; who looks at some clients alone asks ``counts_of``."""
        return self.small_counts.astype(np.int64, copy=False)

    @property
    def small_counts(self) -> Array:
        """The same in a small integer type, and kept from then on. Look numbers up in it; convert them before adding
        them up."""
        if self._counts is None:
            raise InputError(f"the method {NO_COUNTS}")
        self._counts = self._counts(EVERYBODY) if callable(self._counts) else self._counts
        return self._counts

    def look_at_counts(self, clients: Array | slice = EVERYBODY) -> Array:
        """The rows of these clients, in a small integer type. Where clients are very many, the rows are counted when
        somebody asks and no table of all is kept: a round looks at its cohort, and most methods at nobody."""
        if callable(self._counts) and self.clients >= MANY_ROWS:
            return self._counts(clients)
        return self.small_counts[clients]

    def counts_of(self, clients: Array | slice) -> Array:
        """The label counts of these clients, a row each."""
        return self.look_at_counts(clients).astype(np.int64, copy=False)

    def count_blocks(self) -> Iterator[Array]:
        """The label counts of all clients, some at a time."""
        step = max(1, NUMBERS_AT_ONCE // self.dataset.classes)
        return (self.counts_of(slice(first, first + step)) for first in range(0, self.clients, step))

    @property
    def typical(self) -> int:
        """The median size of the clients that hold any samples."""
        return int(np.median(self.sizes[self.sizes > 0])) if self.sizes.any() else 0

    @cached_property
    def class_totals(self) -> Array:
        """Samples of each class, of all clients: added up once, for there may be a million."""
        return np.asarray(sum(held.sum(0) for held in self.count_blocks()))

    @property
    def more(self) -> Array:
        """How many samples each client has gained by the last view; 0 where there was none."""
        return np.broadcast_to(np.int64(0), self.sizes.shape)

    def relative(self, client: int) -> float:
        """What a client weighs, relative to the mean client."""
        return float(int(self.weigh[client]) / max(self.mean_weight, np.finfo(np.float64).tiny))

    def drawn(self, clients: Array, per_class: Array | None = None) -> Array:
        """How many samples these clients train from, each told how many of each class (or all) to take."""
        if per_class is None:
            return self.sizes[clients]
        return np.asarray(np.minimum(per_class, self.counts_of(clients)).sum(1))

    def derive(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """What a part works out from this roster. It is worked out once: a round must not cost more where there are
        more clients."""
        if key not in self._derived:
            self._derived[key] = make()
        found: Derived = self._derived[key]
        return found

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    def told_of(self, part: str) -> Mapping[str, Any]:
        """What the log says of the samples that a part moved."""
        return {s.part: s.report for s in self.sharing if s.part == part}

    def __reduce__(self) -> tuple[Any, ...]:
        """What travels when a roster is pickled: how much everybody holds. The test set, names, links and label counts
        stay at the server."""
        small = {id(rows): in_few_bytes(rows, int(rows.max(initial=0))) for rows in self._rows()}
        rows = (*(small[id(rows)] for rows in self._rows()), self.pooled if self.pooled.any() else None)
        return _travelled, (without_tests(self.dataset), *rows, self.mean_weight)

    def _rows(self) -> tuple[Array, Array, Array]:
        return self.sizes, self.budget, self.weigh

    # --- other rosters

    def lifted(self, key: Hashable, more: Callable[[Array], Array], counted: bool) -> Roster:
        """The same clients with ``more(label counts)`` samples of each class, added up only when somebody asks.

        ``counted``: whether a local epoch and an update's weight count them. The last one by ``key`` is kept.
        """
        if self._lifted is None or self._lifted[0] != key:
            self._lifted = key, Lifted(self, more, counted)
        return self._lifted[1]

    def after(self, sharing: Sharing, sizes: Array, counts: Array | TakeCensus | None) -> Roster:
        """The same clients once raw samples were moved: they hold so many now."""
        if sharing.pooled is not None:
            spent, asked = sharing.pooled
            held = int(sizes.sum())
            one = {"budget": np.array([spent]), "weigh": np.array([held]), "pooled": np.array([asked])}
            named = None if self.names is None else ("all clients",)
            return self._with(sizes=sizes, counts=counts, mean_weight=None, names=named, **one)
        more = sizes - self.sizes
        return self._with(
            sizes=sizes,
            budget=self.budget + more if sharing.budget == "held" else self.budget,
            weigh=self.weigh + more if sharing.weigh == "held" else self.weigh,
            counts=counts,
            mean_weight=None,
            sharing=(*self.sharing, sharing),
        )

    def reported(self, report: Any) -> Roster:
        """The same, where the last sharing is told as ``report`` in the log."""
        return self._with(sharing=(*self.sharing[:-1], replace(self.sharing[-1], report=report)))

    def only(self, client: int) -> Roster:
        """What one client may know of it: its own row, with 0 for all others. It has its own label counts itself."""

        def own(values: Array) -> Array:
            return np.where(self.ids == client, values, 0)

        rows: dict[str, Any] = {
            name: own(getattr(self, name)) for name in ("sizes", "budget", "weigh", "pooled")
        }
        return Roster(without_tests(self.dataset), **rows, mean_weight=self.mean_weight)

    def _with(self, **changes: Any) -> Roster:
        kept = (
            *("dataset", "sizes", "budget", "weigh", "pooled"),
            *("names", "network", "sharing", "mean_weight", "aside"),
        )
        return Roster(**({name: getattr(self, name) for name in kept} | {"counts": self._counts} | changes))

    def __repr__(self) -> str:
        return f"Roster({self.dataset.name!r}, {self.clients} clients)"


class Lifted(Roster):
    """Clients with more samples than were dealt to them, as a view makes them; counted when somebody asks."""

    def __init__(self, before: Roster, more: Callable[[Array], Array], counted: bool):
        self._before, self._more, self._adds = before, more, counted
        self.dataset, self.pooled, self.names = before.dataset, before.pooled, before.names
        self.network, self.sharing, self.aside = before.network, before.sharing, before.aside
        self._counts = self._lifted_counts if before.counted else None
        self._lifted = None

    def _lifted_counts(self, clients: Array | slice) -> Array:
        if clients is not EVERYBODY:
            held = self._before.counts_of(clients)
            return held + self._more(held)
        kind = small_type(int(self.sizes.max(initial=0)), self.clients)
        found, first = np.empty((self.clients, self.dataset.classes), kind), 0
        for held in self._before.count_blocks():
            found[first : first + len(held)] = held + self._more(held)
            first += len(held)
        return found

    @cached_property
    def more(self) -> Array:
        """How many samples more each client has, in few bytes."""
        blocks = (self._more(held).sum(1) for held in self._before.count_blocks())
        small = [in_few_bytes(more, int(more.max(initial=0)), of=self.clients) for more in blocks]
        return told_once(np.concatenate(small), otherwise=None)  # the widest block's type holds all

    @property
    def clients(self) -> int:
        return self._before.clients

    @cached_property
    def sizes(self) -> Array:  # type: ignore[override]
        return added(self._before.sizes, self.more)

    @cached_property
    def budget(self) -> Array:  # type: ignore[override]
        return added(self._before.budget, self.more) if self._adds else self._before.budget

    @cached_property
    def weigh(self) -> Array:  # type: ignore[override]
        return added(self._before.weigh, self.more) if self._adds else self._before.weigh

    @cached_property
    def mean_weight(self) -> float:  # type: ignore[override]
        return float(self.weigh.mean())


def _travelled(
    dataset: Dataset, sizes: Array, budget: Array, weigh: Array, pooled: Array | None, mean_weight: float
) -> Roster:
    # in the usual type again: parts, those of users too, reckon with them and need not know how they travelled
    wide = {id(rows): told_once(rows) for rows in (sizes, budget, weigh)}
    sizes, budget, weigh = (wide[id(rows)] for rows in (sizes, budget, weigh))
    return Roster(dataset, sizes, budget=budget, weigh=weigh, pooled=pooled, mean_weight=mean_weight)


def without_pool(dataset: Dataset) -> Dataset:
    """What the server has of a data set: what samples look like, and a test set; not one of the clients' samples."""
    if not len(dataset):
        return dataset
    none: dict[str, Any] = {"x": np.empty((0, *dataset.shape), dataset.x.dtype), "y": np.zeros(0, np.int64)}
    return replace(dataset, **none, columns={})


def without_tests(dataset: Dataset) -> Dataset:
    """What a client has of the server's data set: what samples look like."""
    none: dict[str, Any] = {
        "x_test": np.empty((0, *dataset.shape), dataset.x.dtype),
        "y_test": np.zeros(0, np.int64),
        "columns_test": {},
    }
    return replace(dataset, **none)

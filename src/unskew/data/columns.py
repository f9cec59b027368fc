"""A table's columns as features: how numbers, words and what is missing become the inputs of a model.

``fitted`` fits what has to be fitted (fills, categories, means) to the training rows by scikit-learn, and the result, a
``Columns``, turns any rows of such a table into features: those of the test set, and later, read back from the model's
file, those that are to be predicted. Which columns are features is decided in ``roles.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import (
    FLOAT32_IN_WORDS,
    SHOWN,
    Impute,
    Place,
    client_word,
    each_value,
    listed,
    missing_words,
    numbers_of,
    warn_of_lost_digits,
    words_of,
)
from unskew.errors import InputError
from unskew.notices import warn

if TYPE_CHECKING:
    from pandas import DataFrame

Fit = Literal["all", "client"]

MOST_CATEGORIES = 5000
"""Different words that a column may hold at all: each is an input of the model."""


@dataclass(frozen=True)
class SiteScale:
    """What was fitted to one client's training rows alone: fills, and what its numbers are scaled by."""

    fills: Mapping[str, float | str]
    mean: Sequence[float]
    std: Sequence[float]


@dataclass(frozen=True)
class Columns:
    """A table's columns as features.

    ``numbers`` are taken as they are, ``words`` become one input a category (one-hot, in ``categories``); ``unused``
    says of every other column why it is not a feature. ``fills`` stand in for what is missing, by the rule
    ``impute``, which also leaves out rows without a label (``unlabelled``). With ``fit="client"`` fills and scales are
    those of the row's own client (``sites``), told by the column ``clients[0]``.
    """

    label: str
    numbers: tuple[str, ...]
    words: tuple[str, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)
    clients: tuple[str, ...] = ()
    impute: Impute | None = None
    fit: Fit = "all"
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fills: Mapping[str, float | str] = field(default_factory=dict)
    sites: Mapping[str, SiteScale] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    unlabelled: int = 0
    sep: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that features are made of, those of numbers first."""
        return (*self.numbers, *self.words)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the model's inputs: ``age``, ``sex=f``, ``sex=m``."""
        return (*self.numbers, *(f"{w}={c}" for w in self.words for c in self.categories[w]))

    def rows(self, frame: DataFrame, place: Place, trained: bool = False) -> tuple[Array, Array]:
        """(features [n, width] of float32, which rows have any).

        Where ``impute`` is ``drop`` a row with a missing value has none; without a rule it is refused. Once a model is
        ``trained`` it is too late for another rule.
        """
        lacking = [c for c in self.used if c not in frame.columns]
        if lacking:
            raise InputError(
                f"{place.where} lacks {'the columns' if len(lacking) > 1 else 'the column'} {listed(lacking)}; it has "
                f"{listed([str(c) for c in frame.columns])}"
            )
        read = {c: numbers_of(frame[c], place) for c in self.numbers}
        said = {c: words_of(frame[c]) for c in self.words}
        gaps = {c: np.isnan(v) for c, v in read.items()} | {
            c: missing_words(values) for c, values in said.items()
        }
        whole = np.ones(len(frame), bool)
        for column, gap in gaps.items():
            if gap.any() and self.impute is None:
                raise place.empty(column, gap, trained)
            if self.impute == "drop":
                whole &= ~gap
        owners = self._owners(frame, place)
        for name, rows in owners.items():
            fills = self.sites[name].fills if name in self.sites else self.fills
            for column, gap in gaps.items():
                values = read.get(column, said.get(column))
                assert values is not None
                if column in fills:
                    values[rows & gap] = fills[column]
        x = np.column_stack([*read.values(), *(self._one_hot(c, v) for c, v in said.items())])
        for name, rows in owners.items():
            if name in self.sites:
                site, width = self.sites[name], len(self.numbers)
                x[rows, :width] = (x[rows, :width] - np.asarray(site.mean)) / np.asarray(site.std)
        x[np.isnan(x)] = 0.0  # a client that has no value of a column at all, or a row that is left out
        return self._narrow(x, place), whole

    def _owners(self, frame: DataFrame, place: Place) -> dict[str, Array]:
        """Which rows are whose, where that decides how they are filled and scaled."""
        if self.fit == "all":
            return {"": np.ones(len(frame), bool)}
        column = self.clients[0]
        if column not in frame.columns:
            raise InputError(
                f"{place.where} has no column {column!r}, and this model scales every client's rows by its own "
                "means (fit=client); add the column"
            )
        owner = each_value(frame[column], client_word)
        if (nobody := missing_words(owner)).any():
            raise InputError(
                f"column {column!r} of {place.where}, which says whose a row is, is empty in "
                f"{place.first(nobody)}, and this model scales every client's rows by its own means (fit=client); "
                "fill it in"
            )
        unknown_to = {name for name in set(owner.tolist()) if name not in self.sites}
        strange = np.flatnonzero([name in unknown_to for name in owner]) if unknown_to else np.zeros(0, int)
        if self.sites and len(strange):
            raise InputError(
                f"the client {owner[strange[0]]!r} in {place.row(strange[0])} of {place.where} took no part in "
                f"training, so its own means are not known (fit=client); write one of "
                f"{', '.join(sorted(self.sites)[:12])}, or train with fit=all"
            )
        return {str(name): np.asarray(owner == name) for name in dict.fromkeys(owner)}

    def _one_hot(self, column: str, values: Array) -> Array:
        import pandas

        places = {word: at for at, word in enumerate(self.categories[column])}
        codes, different = pandas.factorize(values)
        strange = sorted({str(v) for v in different} - set(places))
        if strange:
            some = ", ".join(map(repr, strange[:3])) + (
                f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            )
            warn(
                f"column {column!r} holds what no training row holds ({some}); such rows are taken without it",
                stacklevel=4,
            )
        # the last row is that of what is missing: no category
        rows = np.zeros((len(different) + 1, len(places)))
        for row, word in enumerate(different):
            if word in places:
                rows[row, places[word]] = 1.0
        return np.asarray(rows[codes])

    def _narrow(self, x: Array, place: Place) -> Array:
        with np.errstate(over="ignore"):
            narrow = x.astype(np.float32)
        for k, column in enumerate(self.numbers):
            if (large := ~np.isfinite(narrow[:, k])).any():
                raise InputError(
                    f"column {column!r} of {place.where} has {x[large, k][0]:g} in {place.first(large)}, which is "
                    f"{FLOAT32_IN_WORDS}; scale the column"
                )
        width = len(self.numbers)
        warn_of_lost_digits(
            x[:, :width], narrow[:, :width], lambda k: f"column {self.numbers[k]!r} of {place.where}"
        )
        return np.ascontiguousarray(narrow)

    @property
    def disclosure(self) -> str:
        """What fitting tells of the clients' rows, where these have several owners; nothing where they have not."""
        if not self.clients:
            return ""
        whole = ["categories of the columns of words"] if self.words else []
        if self.fit == "all":
            fills = (
                [f"{self.impute.replace('_', ' ')} values"]
                if self.impute in ("median", "most_frequent")
                else []
            )
            whole = ["column means and deviations", *fills, *whole]
        return (
            " and ".join(filter(None, [", ".join(whole[:-1]), *whole[-1:]])) + " over all clients"
            if whole
            else ""
        )

    def told(self, name: str) -> list[tuple[str, str]]:
        """(word, sentence) pairs that say what became of every column, and by which rule."""
        width = _counted(len(self.features), "input")
        lines = [
            ("features", f"{width} from {_counted(len(self.used), 'column')} of {name}: {self._inputs()}"),
            ("label", self.label + self._unlabelled()),
        ]
        if self.clients:
            lines.append(("clients", f"by {' and '.join(self.clients)}"))
        if self.unused:
            why: dict[str, list[str]] = {}
            for column, reason in self.unused.items():
                why.setdefault(reason, []).append(column)
            lines.append(
                ("not used", "; ".join(f"{listed(columns)} ({reason})" for reason, columns in why.items()))
            )
        if self.missing:
            gaps = ", ".join(f"{n:,} in {c}" for c, n in list(self.missing.items())[:SHOWN])
            lines.append(("missing", f"{gaps}{' …' if len(self.missing) > SHOWN else ''}; {self._rule()}"))
        if self.clients:
            shared = self.disclosure
            how = {
                "all": "to the training rows of all clients together; write fit = client to fit to each one's own",
                "client": f"to each {self.clients[0]}'s own training rows",
            }[self.fit]
            lines.append(("fitted", how + (f"; discloses the {shared}" if shared else "")))
        return lines

    def _unlabelled(self) -> str:
        return f"; {_counted(self.unlabelled, 'row')} without one left out" if self.unlabelled else ""

    def _inputs(self) -> str:
        return listed([*self.numbers, *(f"{w} ({len(self.categories[w])} categories)" for w in self.words)])

    def _rule(self) -> str:
        own = "the client's own training rows" if self.fit == "client" else "the training rows"
        if self.impute == "drop":
            return f"{_counted(self.dropped, 'row')} left out"
        words = " (of words the most frequent)" if self.impute == "median" and self.words else ""
        kind = "median" if self.impute == "median" else "most frequent value"
        return f"filled with the {kind}{words} of {own}"

    def summary(self, name: str) -> dict[str, Any]:
        """What a run's folder, and ``--json``, tell of the columns."""
        return {
            "features": list(self.features),
            "label": self.label,
            "clients": list(self.clients),
            "unused": dict(self.unused),
            "missing": dict(self.missing),
            "dropped_rows": self.dropped,
            "unlabelled_rows": self.unlabelled,
            "impute": self.impute,
            "fit": self.fit,
            "discloses": self.disclosure,
            "told": [list(line) for line in self.told(name)],
        }

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return asdict(self)

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Columns:
        """The way back from ``as_dict``."""
        found: dict[str, Any] = dict(told)
        for name in ("numbers", "words", "clients"):
            found[name] = tuple(found[name])
        found["categories"] = {k: tuple(v) for k, v in found["categories"].items()}
        found["sites"] = {k: SiteScale(**v) for k, v in found["sites"].items()}
        return cls(**found)


def fit_columns(columns: Columns, frame: DataFrame, train: Array, fit: Fit, place: Place) -> Columns:
    """What has to be fitted, to the training rows and no others."""
    read = {c: numbers_of(frame[c], place)[train] for c in columns.numbers}
    said = {c: words_of(frame[c])[train] for c in columns.words}
    categories = {c: _categories(c, values, place) for c, values in said.items()}
    fills = _fills(columns, read, said)
    sites: dict[str, SiteScale] = {}
    if fit == "client":
        if not columns.clients:
            raise InputError(
                "fit=client fits to each client's own rows, so it must know whose they are; write client= and a column"
            )
        owner = each_value(frame[columns.clients[0]], client_word)[train]
        for name in dict.fromkeys(owner):
            mine = np.asarray(owner == name)
            own = {c: v[mine] for c, v in read.items()}
            own_fills = _fills(columns, own, {c: v[mine] for c, v in said.items()})
            sites[str(name)] = _site(own_fills, fills, own, columns)
    return replace(columns, categories=categories, fills=fills, fit=fit, sites=sites)


def _site(
    own: Mapping[str, float | str],
    everybody: Mapping[str, float | str],
    read: Mapping[str, Array],
    columns: Columns,
) -> SiteScale:
    """One client's fills and scale; words that it does not know at all are filled as everybody's, since the
    categories are common anyway, and numbers by its mean, which scales to 0."""
    fills = dict(own)
    for column in columns.words:
        if column in everybody:
            fills.setdefault(column, everybody[column])
    mean, std = [], []
    for column, values in read.items():
        filled = np.where(np.isnan(values), float(fills.get(column, np.nan)), values)
        filled = filled[~np.isnan(filled)]
        apart = float(filled.std()) if len(filled) else 0.0
        mean.append(float(filled.mean()) if len(filled) else 0.0)
        std.append(apart if apart > 1e-8 else 1.0)
    return SiteScale(fills, mean, std)


def _fills(columns: Columns, read: Mapping[str, Array], said: Mapping[str, Array]) -> dict[str, float | str]:
    """What stands in for a missing value of each column; a column without a single value has nothing.

    Of words the most frequent; of several as frequent the first in order. Not by scikit-learn, which takes half a
    second to load.
    """
    if columns.impute not in ("median", "most_frequent"):
        return {}
    fills: dict[str, float | str] = {}
    for column, values in read.items():
        if len(there := values[~np.isnan(values)]):
            fills[column] = float(np.median(there) if columns.impute == "median" else _most_frequent(there))
    for column, values in said.items():
        if len(there := values[~missing_words(values)]):
            fills[column] = str(_most_frequent(there))
    return fills


def _most_frequent(values: Array) -> Any:
    different, counts = np.unique(values, return_counts=True)
    return different[counts.argmax()]


def _categories(column: str, values: Array, place: Place) -> tuple[str, ...]:
    found = sorted(set(values[~missing_words(values)].tolist()))
    if not found:
        raise InputError(
            f"column {column!r} of {place.where} is empty in every training row; write drop={column}"
        )
    if len(found) > MOST_CATEGORIES:
        raise InputError(
            f"column {column!r} of {place.where} holds {len(found):,} different words, each of which would be an input "
            f"of the model; the most is {MOST_CATEGORIES:,}, so write drop={column}"
        )
    return tuple(map(str, found))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")

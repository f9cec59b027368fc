"""What becomes of a table's columns: which are features and how, which are not and why.

``chosen`` sorts the columns, ``fitted`` fits what has to be fitted (fills, categories, means) to the training rows by
scikit-learn, and the result, a ``Columns``, turns any rows of such a table into features: those of the test set, and
later, read back from the model's file, those that are to be predicted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.data.dataset import Array
from unskew.errors import InputError, unknown
from unskew.notices import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Impute = Literal["median", "most_frequent", "drop"]
Fit = Literal["all", "client"]

FLOAT32_IN_WORDS = "too large for float32, which ends at 3.4e38"
MOST_WORDS = 50
"""Different words that a column may hold and still be one-hot without being asked for."""

MOST_CATEGORIES = 5000
"""Different words that a column may hold at all: each is an input of the model."""

FEWEST_NUMBERS = 10
"""In a table of fewer rows, whole numbers that all differ may do so by chance."""

SHOWN = 8
"""Columns that a sentence lists by name; of more it gives the number too."""

_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|ids|uuid|guid|identifier)$", re.IGNORECASE)
_CAMEL = re.compile(r"[a-z](Id|ID|UUID)$")
_DATE = re.compile(r"\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T\s].*)?$|\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T\s].*)?$")
_MARKS = frozenset({"?", "-", "--", ".", "missing", "unknown", "none", ""})
"""Words for a value that is not there, beside those that pandas knows."""


@dataclass(frozen=True)
class Site:
    """What was fitted to one client's training rows alone: fills, and what its numbers are scaled by."""

    fills: Mapping[str, float | str]
    mean: Sequence[float]
    std: Sequence[float]


@dataclass(frozen=True)
class Columns:
    """A table's columns as features.

    ``numbers`` are taken as they are, ``words`` become one input a category (one-hot, in ``categories``); ``unused``
    says of every other column why it is not a feature. ``fills`` stand in for what is missing, by the rule
    ``impute``. With ``fit="client"`` fills and scales are those of the row's own client (``sites``), told by the
    column ``clients[0]``.
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
    sites: Mapping[str, Site] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    sep: str | None = None

    @property
    def used(self) -> tuple[str, ...]:
        """The columns that features are made of, those of numbers first."""
        return (*self.numbers, *self.words)

    @property
    def features(self) -> tuple[str, ...]:
        """The names of the model's inputs: ``age``, ``sex=f``, ``sex=m``."""
        return (*self.numbers, *(f"{w}={c}" for w in self.words for c in self.categories[w]))

    def rows(self, frame: DataFrame, where: str, first: int = 2) -> tuple[Array, Array]:
        """(features [n, width] of float32, which rows have any).

        Where ``impute`` is ``drop`` a row with a missing value has none; without a rule it is refused. ``first``
        is how the first row is counted in complaints: a line of a text file, or 0.
        """
        lacking = [c for c in self.used if c not in frame.columns]
        if lacking:
            raise InputError(
                f"{where} lacks {'the columns' if len(lacking) > 1 else 'the column'} {listed(lacking)}; it has "
                f"{listed([str(c) for c in frame.columns])}"
            )
        place = Place(where, first)
        read = {c: numbers_of(frame[c], place) for c in self.numbers}
        said = {c: words_of(frame[c]) for c in self.words}
        gaps = {c: np.isnan(v) for c, v in read.items()} | {
            c: missing_words(values) for c, values in said.items()
        }
        whole = np.ones(len(frame), bool)
        for column, gap in gaps.items():
            if gap.any() and self.impute is None:
                raise place.empty(column, gap)
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
        from sklearn.preprocessing import OneHotEncoder

        known = np.array(self.categories[column], object)
        codes, different = pandas.factorize(values)
        strange = sorted({str(v) for v in different} - set(self.categories[column]))
        if strange:
            some = ", ".join(map(repr, strange[:3])) + (
                f" and {len(strange) - 3} more" if len(strange) > 3 else ""
            )
            warn(
                f"column {column!r} holds what no training row holds ({some}); such rows are taken without it",
                stacklevel=4,
            )
        encoder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
        encoder.fit(known[:1, None])
        rows = np.zeros(
            (len(different) + 1, len(known))
        )  # the last row is that of what is missing: no category
        if len(different):
            rows[:-1] = encoder.transform(np.asarray(different, object)[:, None])
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
            ("label", self.label),
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
        found["sites"] = {k: Site(**v) for k, v in found["sites"].items()}
        return cls(**found)


@dataclass(frozen=True)
class Place:
    """Where rows come from, as a user would find them."""

    where: str
    first_row: int

    def row(self, k: int) -> str:
        return f"line {k + self.first_row}" if self.first_row else f"row {k}"

    def first(self, mask: Array) -> str:
        return self.row(int(np.flatnonzero(mask)[0]))

    def empty(self, column: str, gap: Array) -> InputError:
        return InputError(
            f"column {column!r} of {self.where} is empty or NaN in {int(gap.sum())} of {len(gap)} rows, first in "
            f"{self.first(gap)}; fill them in, or write impute=median, impute=most_frequent or impute=drop"
        )


def chosen(
    frame: DataFrame,
    label: str,
    clients: tuple[str, ...],
    features: Sequence[str],
    drop: Sequence[str],
    impute: Impute | None,
    place: Place,
) -> Columns:
    """Which columns are features, and why the others are not; nothing is fitted yet."""
    rest = [c for c in map(str, frame.columns) if c != label and c not in clients]
    wanted = named(features, "feature", frame, label, clients, place)
    left = named(drop, "dropped", frame, label, (), place)
    if both := next((c for c in wanted if c in left), None):
        raise InputError(f"column {both!r} of {place.where} is both in features and in drop; keep one")
    numbers: list[str] = []
    words: list[str] = []
    unused: dict[str, str] = {}
    for column in rest:
        if column in left:
            unused[column] = "dropped"
        elif wanted and column not in wanted:
            unused[column] = "not among features"
        else:
            kind, reason = _kind(frame[column], column, impute, place, asked=column in wanted)
            if reason and column in wanted:
                raise InputError(f"column {column!r} of {place.where} cannot be a feature: {reason}")
            if reason:
                unused[column] = reason
            else:
                (numbers if kind == "numbers" else words).append(column)
    if not numbers and not words:
        why = "; ".join(f"{c}: {r}" for c, r in list(unused.items())[:SHOWN])
        raise InputError(
            f"{place.where} has no column to learn from besides the label {label!r}" + (f" ({why})" if why else "")
            + (f"; write features={next(iter(unused))} to take one all the same" if unused else "")
        )  # fmt: skip
    return Columns(label, tuple(numbers), tuple(words), unused, clients, impute)


def named(
    given: Sequence[str], what: str, frame: DataFrame, label: str, clients: tuple[str, ...], place: Place
) -> list[str]:
    """Columns by their names; one entry may name several with commas between them."""
    there = set(map(str, frame.columns))
    found: list[str] = []
    for one in map(str, given):
        found += [one] if one in there else [part.strip() for part in one.split(",") if part.strip()]
    for column in found:
        if column not in there:
            raise no_column(what, column, frame, place.where)
        if column == label:
            raise InputError(
                f"column {column!r} of {place.where} is the label; take it out of {_setting(what)}"
            )
        if column in clients:
            raise InputError(
                f"column {column!r} of {place.where} says who holds a row, so it cannot be a feature; take it out"
            )
    return list(dict.fromkeys(found))


def fitted(columns: Columns, frame: DataFrame, train: Array, fit: Fit, place: Place) -> Columns:
    """What has to be fitted, to the training rows and no others."""
    read = {c: numbers_of(frame[c], place)[train] for c in columns.numbers}
    said = {c: words_of(frame[c])[train] for c in columns.words}
    categories = {c: _categories(c, values, place) for c, values in said.items()}
    fills = _fills(columns, read, said)
    sites: dict[str, Site] = {}
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
) -> Site:
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
    return Site(fills, mean, std)


def _fills(columns: Columns, read: Mapping[str, Array], said: Mapping[str, Array]) -> dict[str, float | str]:
    """What stands in for a missing value of each column; a column without a single value has nothing."""
    if columns.impute not in ("median", "most_frequent"):
        return {}
    from sklearn.impute import SimpleImputer

    fills: dict[str, float | str] = {}
    for column, values in read.items():
        if not np.isnan(values).all():
            fills[column] = float(SimpleImputer(strategy=columns.impute).fit(values[:, None]).statistics_[0])
    for column, values in said.items():
        if not missing_words(values).all():
            imputer = SimpleImputer(strategy="most_frequent", missing_values=None).fit(values[:, None])
            fills[column] = str(imputer.statistics_[0])
    return fills


def _categories(column: str, values: Array, place: Place) -> tuple[str, ...]:
    import pandas
    from sklearn.preprocessing import OneHotEncoder

    known = np.asarray(pandas.unique(values[~missing_words(values)]), object)
    if not len(known):
        raise InputError(
            f"column {column!r} of {place.where} is empty in every training row; write drop={column}"
        )
    found = OneHotEncoder(handle_unknown="ignore").fit(known[:, None]).categories_[0]
    if len(found) > MOST_CATEGORIES:
        raise InputError(
            f"column {column!r} of {place.where} holds {len(found):,} different words, each of which would be an input "
            f"of the model; the most is {MOST_CATEGORIES:,}, so write drop={column}"
        )
    return tuple(map(str, found))


def _kind(
    values: Series, column: str, impute: Impute | None, place: Place, asked: bool
) -> tuple[Literal["numbers", "words"], str]:
    """Whether a column holds numbers or words, and why it is no feature, if it is none.

    A column that was ``asked`` for is only refused where it cannot be one.
    """
    import pandas

    there = values[values.notna()]
    if not len(there):
        return "numbers", "empty"
    if pandas.api.types.is_datetime64_any_dtype(values) or pandas.api.types.is_timedelta64_dtype(values):
        return "words", "dates or times"
    if any(isinstance(v, (list, tuple, dict, set, np.ndarray, bytes)) for v in there[:100]):
        return "words", "lists, not numbers or words"
    if is_numeric(values, impute, place):
        parsed = parsed_numbers(there)
        whole = parsed[np.isfinite(parsed)]
        if asked or not len(whole) or (whole != np.floor(whole)).any():
            return "numbers", ""
        if len(np.unique(whole)) == len(whole) >= FEWEST_NUMBERS:
            return "numbers", "whole numbers that all differ, like an identifier"
        return "numbers", "named like an identifier" if identifier_name(column) else ""
    words = words_of(there)
    said = words[~missing_words(words)].tolist()
    different = len(set(said))
    if asked:
        return "words", ""
    if all(_DATE.match(v) for v in said[:100]):
        return "words", "dates or times"
    if different == len(said) and different > 1:
        return "words", "words that all differ, like an identifier"
    if identifier_name(column):
        return "words", "named like an identifier"
    if different == 1:
        return "words", "the same in every row"
    if different > MOST_WORDS:
        return "words", f"{different:,} different words, more than {MOST_WORDS}"
    return "words", ""


def identifier_name(column: str) -> bool:
    """Whether a column's name says that it tells rows apart: id, patient_id, patientID, uuid."""
    return bool(_IDENTIFIER.search(column) or _CAMEL.search(column))


def is_numeric(values: Series, impute: Impute | None, place: Place) -> bool:
    """Numbers; a column of numbers with a few stray words is refused, not taken for a column of words."""
    import pandas

    if pandas.api.types.is_bool_dtype(values) or pandas.api.types.is_numeric_dtype(values):
        return True
    parsed = pandas.to_numeric(values, errors="coerce")
    stray = np.array(parsed.isna() & values.notna())
    if not parsed.notna().any():
        return False
    if impute is not None:  # a mark for what is missing is missing, where there is a rule for that
        stray[stray] = [not is_mark(v) for v in values[stray].tolist()]
    if parsed.notna().sum() > len(values) / 2 and stray.any():
        word = values[stray].iloc[0]
        raise InputError(
            f"column {values.name!r} of {place.where} holds numbers except for {int(stray.sum())} of {len(values)} "
            f"rows, first {word!r} in {place.first(stray)}; correct them, or write drop={values.name}"
            + (" or a rule such as impute=median" if is_mark(word) else "")
        )
    return not stray.any()


def is_mark(value: Any) -> bool:
    """Whether a word stands for a value that is not there."""
    return str(value).strip().lower() in _MARKS


def parsed_numbers(values: Series) -> Array:
    """A column's numbers as float64; what is none is NaN."""
    import pandas

    return pandas.to_numeric(values, errors="coerce").astype(float).to_numpy(np.float64, copy=True)


def numbers_of(values: Series, place: Place) -> Array:
    """A column of numbers, missing ones NaN; words and infinities are refused."""
    found = parsed_numbers(values)
    words = np.array(np.isnan(found) & np.asarray(values.notna()))
    if words.any():
        words[words] = [not is_mark(v) for v in values[words].tolist()]
    if words.any():
        word = values[words].iloc[0]
        raise InputError(
            f"column {values.name!r} of {place.where} must hold numbers, but {place.first(words)} has {word!r}"
        )
    if (endless := np.isinf(found)).any():
        raise InputError(
            f"column {values.name!r} of {place.where} is infinite in {int(endless.sum())} of {len(found)} rows, first "
            f"in {place.first(endless)}; correct them or drop those rows"
        )
    return found


def words_of(values: Series) -> Array:
    """A column of words, missing ones None."""
    spelt = each_value(values, client_word)
    return each_value(spelt, lambda v: None if v.strip() in ("", "?") else v)


def each_value(values: Any, change: Callable[[Any], Any]) -> Array:
    """A column with every different value changed once: a million rows hold few different words. Missing stays None."""
    import pandas

    codes, different = pandas.factorize(values)
    changed = np.empty(len(different) + 1, object)
    changed[:-1] = [change(v) for v in different.tolist()]  # the last place, None, is that of the code -1
    return np.asarray(changed[codes])


def missing_words(words: Array) -> Array:
    """Which of these words are missing."""
    import pandas

    return np.asarray(pandas.isna(words))


def client_word(value: Any) -> str:
    """A value as the word that it is a client or a category by: 3.0 is 3, as where no value is missing."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def no_column(what: str, column: str, frame: DataFrame, where: str) -> InputError:
    return InputError(f"in {where} {unknown(f'{what} column', column, map(str, frame.columns))}")


def listed(names: Sequence[str]) -> str:
    """Some names in a sentence; of many the first ones and how many more there are."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def _setting(what: str) -> str:
    return "features" if what == "feature" else "drop"

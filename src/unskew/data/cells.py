"""The values of a table's columns: numbers and words as they are written, what is missing, and where that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unskew.arrays import Array
from unskew.errors import InputError, unknown
from unskew.notices import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Impute = Literal["median", "most_frequent", "drop"]
"""The rules for missing values: fill them, or leave the row out."""

TABLES = (".csv", ".tsv", ".parquet", ".pq")
"""How the file of a table may end."""

FLOAT32_IN_WORDS = "too large for float32, which ends at 3.4e38"

SHOWN = 8
"""Columns that a sentence lists by name; of more it gives the number too."""

_MARKS = frozenset({"?", "-", "--", ".", "missing", "unknown", "none", ""})
"""Words for a value that is not there, beside those that pandas knows."""


@dataclass(frozen=True)
class Place:
    """Where rows come from, as a user would find them."""

    where: str
    first_row: int

    def row(self, k: int) -> str:
        return f"line {k + self.first_row}" if self.first_row else f"row {k}"

    def first(self, mask: Array) -> str:
        return self.row(int(np.flatnonzero(mask)[0]))

    def empty(self, column: str, gap: Array, trained: bool) -> InputError:
        rules = "impute=median, impute=most_frequent or impute=drop"
        return InputError(
            f"column {column!r} of {self.where} is empty or NaN in {int(gap.sum())} of {len(gap)} rows, first in "
            f"{self.first(gap)}; fill them in, or "
            + (f"train with a rule for them, {rules}" if trained else f"write {rules}")
        )


@dataclass(frozen=True)
class Kept(Place):
    """Where rows come from that some of a place's rows are."""

    of: Place
    rows: Array

    def row(self, k: int) -> str:
        return self.of.row(int(self.rows[k]))


def is_numeric(values: Series, impute: Impute | None, place: Place) -> bool:
    """Numbers; a column of numbers with a few stray words is refused, not taken for a column of words."""
    import pandas

    if pandas.api.types.is_bool_dtype(values) or pandas.api.types.is_numeric_dtype(values):
        return True
    parsed = _coerced(values)
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


def parse_numbers(values: Series) -> Array:
    """A column's numbers as float64; what is none is NaN, what is too large for one infinite."""
    return np.array(_coerced(values).astype(float).to_numpy(np.float64, copy=True))


def _coerced(values: Series) -> Series:
    """Numbers as pandas reads them; of words NaN. It stumbles over whole numbers of hundreds of digits."""
    import pandas

    try:
        return pandas.to_numeric(values, errors="coerce")
    except OverflowError:
        return values.map(_number)


def _number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return math.nan


def numbers_of(values: Series, place: Place) -> Array:
    """A column of numbers, missing ones NaN; words and infinities are refused."""
    found = parse_numbers(values)
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


def warn_of_lost_digits(wide: Array, narrow: Array, name: Callable[[int], str]) -> None:
    """Warn of a feature whose numbers float32 rounds to few different ones, as those of times in seconds.

    ``narrow`` is ``wide`` [n, features] in float32; a thousand rows tell. Below a hundred steps of float32 between its
    ends a feature counts as lost.
    """
    some = slice(None, None, max(1, len(wide) // 1000))
    exact = wide[some].astype(np.float64)
    low, high = exact.min(axis=0), exact.max(axis=0)
    lost = np.flatnonzero((high > low) & (np.abs(exact - narrow[some]).max(axis=0) > (high - low) / 200))
    if len(lost):
        k = int(lost[0])
        more = f" ({len(lost) - 1} more are so, too)" if len(lost) > 1 else ""
        warn(
            f"{name(k)} lies between {low[k]:.12g} and {high[k]:.12g}, where float32 hardly tells numbers apart; "
            f"subtract its smallest from all{more}",
            stacklevel=4,
        )

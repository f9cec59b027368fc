"""Which columns of a table are features, and why the others are not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from unskew.data.cells import (
    SHOWN,
    Impute,
    Place,
    is_mark,
    is_numeric,
    missing_words,
    no_column,
    parse_numbers,
    words_of,
)
from unskew.data.columns import Columns
from unskew.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MOST_WORDS = 50
"""Different words that a column may hold and still be one-hot without being asked for."""

FEWEST_NUMBERS = 10
"""In a table of fewer rows, whole numbers that all differ may do so by chance."""

_IDENTIFIER = re.compile(r"(^|[_\s.-])(id|ids|uuid|guid|identifier)$", re.IGNORECASE)

_CAMEL = re.compile(r"[a-z](Id|ID|UUID)$")

_DATE = re.compile(r"\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T\s].*)?$|\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{4}([T\s].*)?$")

_WITH_COMMA = re.compile(r"\s*[-+]?\d+([.,]\d+)*,\d+([eE][-+]?\d+)?\s*")
"""A number that Python would not read: 36,5 or 1.234,5 or 1,234."""

_PLAIN = re.compile(r"\s*[-+]?(\d+[.]?\d*|[.]\d+)([eE][-+]?\d+)?\s*")
"""A number that it would."""


def choose_roles(
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
        parsed = parse_numbers(there)
        whole = parsed[np.isfinite(parsed)]
        if asked or not len(whole) or (whole != np.floor(whole)).any():
            return "numbers", ""
        if len(np.unique(whole)) == len(whole) >= FEWEST_NUMBERS:
            return "numbers", "whole numbers that all differ, like an identifier"
        return "numbers", "named like an identifier" if identifier_name(column) else ""
    words = words_of(there)
    said = words[~missing_words(words)].tolist()
    if (comma := _with_comma(said)) is not None:
        raise InputError(
            f"column {column!r} of {place.where} holds numbers with commas, such as {comma!r}; write a decimal point "
            f"and no other sign, or drop={column}"
        )
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


def _with_comma(said: list[str]) -> str | None:
    """The first number with a comma in a column of nothing but numbers, of which some may have none: 36 beside 36,5."""
    found = None
    for word in dict.fromkeys(said):
        if _WITH_COMMA.fullmatch(word):
            found = found or word
        elif not (_PLAIN.fullmatch(word) or is_mark(word)):
            return None
    return found


def identifier_name(column: str) -> bool:
    """Whether a column's name says that it tells rows apart: id, patient_id, patientID, uuid."""
    return bool(_IDENTIFIER.search(column) or _CAMEL.search(column))


def _setting(what: str) -> str:
    return "features" if what == "feature" else "drop"

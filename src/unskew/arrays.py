"""Types of numpy arrays that all of unskew speaks of, and how many numbers are kept in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Ids = npt.NDArray[np.int64]
"""Whole numbers: of clients, of samples, of positions in a list."""

MANY_ROWS = 100_000
"""Rows from which on it matters how many bytes each takes: a million clients have a million rows, and lists that are
ten times as long."""

NUMBERS_AT_ONCE = 1 << 17
"""Numbers worked on at a time, where working on all at once would take as much memory again."""


def small_type(most: int, rows: int) -> type[np.integer[Any]]:
    """What so many rows of whole numbers from 0 to ``most`` are kept in: the smallest type that holds them; few in
    int64."""
    kinds = (np.uint8, np.uint16, np.int32) if rows >= MANY_ROWS else ()
    return next((kind for kind in kinds if most <= np.iinfo(kind).max), np.int64)


def in_few_bytes(values: Array, most: int, of: int | None = None) -> Array:
    """Whole numbers from 0 to ``most`` in their ``small_type``.

    To look up, not to reckon with: what is taken out to be added up is widened first. ``of``: how many rows there are,
    where these are some of them.
    """
    return np.asarray(values, small_type(most, of or len(values)))


def told_once(values: Array, otherwise: type[np.integer[Any]] | None = np.int64) -> Array:
    """The same numbers in int64; where many are all equal, one of them that is seen as so many.

    Such a view takes the memory of one number. It is read like any array, and cannot be written to. Unequal ones are of
    type ``otherwise``; as they are where that is None.
    """
    if len(values) < MANY_ROWS or (values != values[0]).any():
        return values if otherwise is None else values.astype(otherwise, copy=False)
    return np.broadcast_to(np.int64(values[0]), values.shape)


def added(values: Array, more: Array) -> Array:
    """The sum of both, told once where both are; the same array where nothing is added."""
    if any(more.strides):
        return np.asarray(values + more)
    if any(values.strides):
        return np.asarray(values + more) if len(more) and more[0] else values
    return np.broadcast_to(values[0] + more[0], values.shape)


def wide_blocks(values: Array) -> Iterator[Array]:
    """The same numbers in int64, one stretch after the other."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return (
        np.asarray(flat[start : start + NUMBERS_AT_ONCE], "<i8")
        for start in range(0, len(flat), NUMBERS_AT_ONCE)
    )

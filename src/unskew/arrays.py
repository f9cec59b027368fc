"""Types of numpy arrays that all of unskew speaks of, and how many numbers are kept in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Ids = npt.NDArray[np.int64]
"""Whole numbers: of clients, of samples, of positions in a list."""

MANY = 100_000
"""Numbers of which it matters what one takes: a million clients have as many rows, and lists ten times as long."""

BLOCK = 1 << 17
"""Numbers that are worked on at a time where all of them at once would take as much memory as they themselves."""


def in_few_bytes(values: Array, most: int, of: int | None = None) -> Array:
    """Whole numbers from 0 to ``most``: many rows of them in the smallest type that holds them, few in int64.

    To look up, not to reckon with: what is taken out to be added up is widened first. ``of``: how many rows there are,
    where these are some of them.
    """
    kinds = (np.uint8, np.uint16, np.int32) if (of or len(values)) >= MANY else ()
    kind = next((kind for kind in kinds if most <= np.iinfo(kind).max), np.int64)
    return np.asarray(values, kind)


def wide_blocks(values: Array) -> Iterator[Array]:
    """The same numbers in int64, one stretch after the other."""
    flat = np.ascontiguousarray(values).reshape(-1)
    return (np.asarray(flat[start : start + BLOCK], "<i8") for start in range(0, len(flat), BLOCK))

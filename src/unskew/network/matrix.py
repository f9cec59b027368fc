"""A matrix of one number a pair of clients, from a file."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from unskew.arrays import Array
from unskew.errors import InputError


def read_matrix(path: str, what: str, *sizes: int) -> Array:
    """The square matrix of a .npy or .csv file, of one of these sizes, without negative numbers."""
    place = Path(path)
    if place.suffix.lower() not in (".npy", ".csv"):
        raise InputError(f"{what} {path!r} must be a .npy or .csv file")
    if not place.is_file():
        raise InputError(f"there is no file {path} for {what}")
    table = _read(str(place), place.stat().st_mtime_ns, what)
    if table.ndim != 2 or table.shape[0] != table.shape[1] or len(table) not in sizes:
        wanted = " or ".join(f"{n} x {n}" for n in sizes)
        shape = " x ".join(map(str, table.shape))
        raise InputError(f"{what} must be a matrix of {wanted} numbers, but {path} holds {shape}")
    if not np.all(np.isfinite(table)) or table.min() < 0:
        raise InputError(f"{what} must be finite and not negative, but {path} holds {_odd(table):g}")
    return table


@lru_cache(maxsize=4)
def _read(path: str, changed: int, what: str) -> Array:
    """The file as it was when it last ``changed``."""
    try:
        table = np.load(path) if path.lower().endswith(".npy") else np.loadtxt(path, delimiter=",", ndmin=2)
        return np.asarray(table, np.float64)
    except Exception:  # the header of a damaged .npy fails in numpy and in Python's own tokenizer
        raise InputError(f"{path} holds no numbers for {what}; write one row of numbers a client") from None


def _odd(table: Array) -> float:
    return float(table[~(np.isfinite(table) & (table >= 0))].flat[0])

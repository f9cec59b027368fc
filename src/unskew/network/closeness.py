"""Who trusts whom: DACA's social closeness graph, 0 (strangers) to 1."""

from __future__ import annotations

import numpy as np

from unskew.arrays import Array
from unskew.errors import InputError
from unskew.network.matrix import read_matrix
from unskew.seeds import generator


def random_closeness(clients: int, seed: int) -> Array:
    """A random symmetric matrix, uniform in 0..1 off the diagonal (DACA, section IV-A.3)."""
    return mirrored(generator(seed, "closeness").random((clients, clients)), 1.0)


def given_closeness(path: str, clients: int) -> Array:
    """The matrix of a file, which must be symmetric and lie between 0 and 1."""
    table = read_matrix(path, "closeness", clients)
    if table.max(initial=0.0) > 1:
        raise InputError(f"closeness lies between 0 and 1, but {path} holds {table.max():g}")
    if len(apart := np.argwhere(~np.isclose(table, table.T, rtol=0, atol=1e-9))):
        i, j = apart[0].tolist()
        raise InputError(
            f"closeness must be symmetric, but in {path} client {i} trusts {j} by {table[i, j]:g} and "
            f"{j} trusts {i} by {table[j, i]:g}"
        )
    return table


def mirrored(table: Array, diagonal: float) -> Array:
    """The upper triangle on both sides of the diagonal: one value a pair."""
    upper = np.triu(table, 1)
    made = upper + upper.T
    np.fill_diagonal(made, diagonal)
    return np.asarray(made)

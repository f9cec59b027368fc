"""Values of a message, each checked to be what was asked for before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from unskew.core.types import Ids, Tree
from unskew.sites.messages import BadMessage

WHOLE = ("steps", "samples", "held", "drawn", "sent")
"""Numbers of a client that are whole."""


def tree_like(told: Any, like: Tree, count: int | None, what: str) -> Tree:
    """Tensors of exactly these names, types and shapes, with a row a client where ``count`` is given."""
    if not isinstance(told, dict) or set(told) != set(like):
        raise BadMessage(f"{what} is made of other tensors than the run's model")
    found: Tree = {}
    for name, expected in like.items():
        shape = tuple(expected.shape) if count is None else (count, *expected.shape)
        value = told[name]
        if not isinstance(value, torch.Tensor) or tuple(value.shape) != shape:
            raise BadMessage(f"{name} of {what} has another shape than the run's model")
        if value.dtype != expected.dtype:
            raise BadMessage(f"{name} of {what} is of another type than the run's model")
        found[name] = value
    return found


def vector(told: Any, count: int, name: str) -> torch.Tensor:
    """One number a client."""
    kind = torch.int64 if name in WHOLE else torch.float64
    if not isinstance(told, torch.Tensor) or told.shape != (count,) or told.dtype != kind:
        raise BadMessage(f"{name} is not one number a client")
    if name in (*WHOLE, "examples") and bool((told < 0).any()):
        raise BadMessage(f"{name} cannot be below 0")
    if name not in (*WHOLE, "loss") and not bool(torch.isfinite(told).all()):
        # NaN in a model is the round's to refuse, by its client
        raise BadMessage(f"{name} is no finite number")
    return told


def ids(told: Mapping[str, Any], name: str) -> Ids:
    value = told.get(name)
    if not isinstance(value, np.ndarray) or value.ndim != 1 or value.dtype != np.int64:
        raise BadMessage(f"{name} is no list of whole numbers")
    return value


def mapping(told: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = told.get(name)
    if not isinstance(value, dict):
        raise BadMessage(f"{name} has no names")
    return value


def sequence(told: Mapping[str, Any], name: str) -> list[Any]:
    value = told.get(name)
    if not isinstance(value, list):
        raise BadMessage(f"{name} is no list")
    return value

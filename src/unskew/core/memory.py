"""Memories as flat files hold them: one name per tensor, its path through the trees. The only place that knows how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unskew.core.types import Memory, Tree

BETWEEN = "/"
ESCAPES = (("%", "%25"), (BETWEEN, "%2F"))
"""How a name is written that has the sign itself in it, as a layer of one's own may."""


def flatten(memory: Mapping[str, Any]) -> Tree:
    """Every tensor by its path: ``momentum/conv1.weight``. A tree without a tensor leaves nothing."""
    flat: Tree = {}
    for name, value in memory.items():
        here = _written(name)
        if isinstance(value, dict):
            flat |= {f"{here}{BETWEEN}{path}": tensor for path, tensor in flatten(value).items()}
        else:
            flat[here] = value
    return flat


def nest(flat: Mapping[str, Any]) -> Memory:
    """The inverse of ``flatten``."""
    memory: Memory = {}
    for path, tensor in flat.items():
        *trees, name = (_read(piece) for piece in path.split(BETWEEN))
        here = memory
        for tree in trees:
            here = here.setdefault(tree, {})
        here[name] = tensor
    return memory


def _written(name: str) -> str:
    for sign, escaped in ESCAPES:
        name = name.replace(sign, escaped)
    return name


def _read(name: str) -> str:
    for sign, escaped in reversed(ESCAPES):
        name = name.replace(escaped, sign)
    return name

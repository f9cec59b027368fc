"""Turns a function of one client's tensors into one of many clients' at once.

``torch.func.vmap`` does it. Handed trees, it walks them some ten times a call, in Python, which took as long as the
arithmetic of a small model. So trees are taken apart here, once, and what all clients share does not go through it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from torch import Tensor
from torch.func import vmap

Result = TypeVar("Result")


def over_clients(one: Callable[..., Result], rows: tuple[bool, ...]) -> Callable[..., Result]:
    """``one`` over stacked clients: ``rows`` says which arguments, trees of tensors, have a row for each client."""

    def all_at_once(*given: Any) -> Result:
        def of_rows(*leaves: Tensor) -> Result:
            left = iter(leaves)
            return one(
                *(_again(value, left) if own else value for value, own in zip(given, rows, strict=True))
            )

        leaves = [leaf for value, own in zip(given, rows, strict=True) if own for leaf in _leaves(value)]
        found: Result = vmap(of_rows)(*leaves)
        return found

    return all_at_once


def _leaves(tree: Any) -> Iterator[Tensor]:
    """The tensors of a tree, in the order of its names."""
    if isinstance(tree, dict):
        for below in tree.values():
            yield from _leaves(below)
    else:
        yield tree


def _again(tree: Any, leaves: Iterator[Tensor]) -> Any:
    """A tree of the same names over the next of these tensors."""
    if isinstance(tree, dict):
        return {name: _again(below, leaves) for name, below in tree.items()}
    return next(leaves)

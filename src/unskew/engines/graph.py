"""What rewrites of recorded steps ask of a graph and do to it, and how a recording is tried."""

from __future__ import annotations

import math
import operator
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

aten = torch.ops.aten

SILENT_VIEWS = (operator.getitem, aten._unsafe_view.default)
"""Operations that may show their first argument's memory and have no schema that says so."""


def shaken(values: list[Tensor], but: Collection[int] = ()) -> list[Tensor]:
    """Copies with other numbers in them, each by itself: a recording that is right only for those at hand shows.

    ``but``: places of those that are copied as they are.
    """
    drawing = torch.Generator().manual_seed(0)

    def one(at: int, value: Tensor) -> Tensor:
        if any(step == 0 and size > 1 for step, size in zip(value.stride(), value.shape, strict=True)):
            return value  # one number that is seen many times: nothing writes to it
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)
        if copy.is_floating_point() and at not in but:
            noise = torch.rand(copy.shape, generator=drawing, dtype=copy.dtype)
            copy.mul_(1 + 0.1 * noise).add_(noise, alpha=0.01)
        return copy

    return [one(at, value) for at, value in enumerate(values)]


def alike(some: list[Tensor], others: list[Tensor]) -> bool:
    """Whether two lists hold the same numbers up to rounding, which is judged by the largest that differs at all."""
    with torch.no_grad():
        pairs = [(a, b) for a, b in zip(some, others, strict=True) if not torch.equal(a, b)]
        sizes = [float(a.abs().max()) for a, _ in pairs]
        if not all(map(math.isfinite, sizes)):
            return True  # nothing can be told
        apart = [float((a - b).abs().max()) for a, b in pairs]
    rounding = 1e3 * max((torch.finfo(a.dtype).eps for a, _ in pairs), default=0.0)
    largest = max(sizes, default=0.0)
    return all(
        off <= rounding * max(size, 0.1 * largest, 1.0) for off, size in zip(apart, sizes, strict=True)
    )


def shapes_depend_on_numbers(graph: Graph) -> bool:
    """Whether a result's shape follows from the numbers at hand, as of rows picked by a mask: in another batch the
    recorded operations would be others."""
    return any(
        torch.Tag.dynamic_output_shape in getattr(node.target, "tags", ()) and not _picks_by_places(node)
        for node in graph.nodes
    )


def _picks_by_places(node: Node) -> bool:
    """Whether a node takes rows by their places, as many as there are places, and not by a mask."""
    if node.target is not aten.index.Tensor:
        return False
    found = [form(place) for place in node.args[1] if place is not None]  # type: ignore[union-attr]
    return all(known is not None and known.dtype not in (torch.bool, torch.uint8) for known in found)


def form(node: Any) -> Any:
    """What is known of a tensor: shape, type, strides."""
    return node.meta.get("form")


def same_form(a: Any, b: Any) -> bool:
    """Whether two nodes are known to be tensors of one shape and type."""
    found = [form(node) for node in (a, b)]
    return None not in found and found[0][:2] == found[1][:2]


def owner(node: Any) -> Any:
    """Whose memory a node shows: its own, or that of what it is a view of."""
    while node.op == "call_function":
        returns = node.target._schema.returns if hasattr(node.target, "_schema") else ()
        if node.target not in SILENT_VIEWS and not any(r.alias_info for r in returns):
            break
        node = node.args[0]
    return node


def written(graph: Graph, first: Node, last: Node) -> set[Any]:
    """The owners of all memory that is written from one node to another, both included."""
    nodes = list(graph.nodes)
    found = set()
    for node in nodes[nodes.index(first) : nodes.index(last) + 1]:
        schema = getattr(node.target, "_schema", None)
        for i, argument in enumerate(schema.arguments if schema is not None and schema.is_mutable else ()):
            if argument.alias_info is not None and argument.alias_info.is_write:
                value = node.args[i] if i < len(node.args) else node.kwargs.get(argument.name)
                several = value if isinstance(value, (list, tuple)) else [value]
                found |= {owner(v) for v in several if isinstance(v, Node)}
    return found


def calls(graph: Graph, *targets: Any) -> list[Any]:  # a node's arguments are typed as anything there is
    return [node for node in graph.nodes if node.op == "call_function" and node.target in targets]


def swap(node: Node, by: Any) -> None:
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)

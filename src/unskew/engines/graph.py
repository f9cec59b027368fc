"""Steps as graphs of operations: how one is recorded, and what rewrites ask and do."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

aten = torch.ops.aten

SILENT_VIEWS = (operator.getitem, aten._unsafe_view.default)
"""Operations that may show their first argument's memory and have no schema that says so."""


def trace(step: Callable[..., Any], values: list[Tensor]) -> torch.fx.GraphModule:
    """The operations that a function of tensors ends in, autograd's own included."""
    from torch._guards import TracingContext, tracing
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx  # takes half a second to load

    # torch notes the shape of every result in a mode, and makes a new one for each where it finds none
    shapes = TracingContext(FakeTensorMode(allow_fallback_kernels=True))
    with torch.enable_grad(), tracing(shapes):
        return make_fx(step)(*values)


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
    found = [place.meta.get("tensor_meta") for place in node.args[1] if place is not None]  # type: ignore[union-attr]
    return all(known is not None and known.dtype not in (torch.bool, torch.uint8) for known in found)


def same_form(a: Any, b: Any) -> bool:
    """Whether two nodes are known to be tensors of one shape and type."""
    found = [node.meta.get("tensor_meta") for node in (a, b)]
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

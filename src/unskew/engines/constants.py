"""What is the same in every step of a recording, or twice in one: computed once."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Graph, Node

from unskew.engines.graph import aten, calls, form, owner, same_form, swap, written
from unskew.engines.traced import Traced

FILLED = (aten.ones_like.default, aten.zeros_like.default, aten.new_zeros.default, aten.new_ones.default)
"""Operations that look at the form of a tensor and at none of its numbers."""

LARGEST = 1 << 16
"""Numbers that a constant may hold: to read many takes as long as to make them."""


def make_constants_once(traced: Traced) -> None:
    """Compute what depends on no argument now; it must not be written to, nor be a result, which others may write to.

    Only of numbers that stand in the step itself: others may change a tensor that a model holds beside its weights.
    """
    graph, used, made = traced.graph, _changed_or_shown(traced.graph), set[Any]()
    for node in list(graph.nodes):
        if owner(node) in used or not _depends_on(node, made):
            continue
        with graph.inserting_before(node):
            constant = traced.hold(node.target(*_given(traced, node), **node.kwargs))
        constant.meta = node.meta
        made.add(constant)
        swap(node, constant)
    for node in calls(graph, aten.mul.Tensor):
        factors = [one for one in node.args if one in made and bool((traced.own[one.target] == 1).all())]
        others = [other for other in node.args if other not in factors]
        if len(others) == 1 and same_form(node, others[0]) and not {owner(others[0]), node} & used:
            swap(node, others[0])


def _changed_or_shown(graph: Graph) -> set[Any]:
    """The owners of memory that a step writes to or gives back."""
    first, *_, last = graph.nodes
    return written(graph, first, last) | {owner(node) for node in last.all_input_nodes}


def _depends_on(node: Any, made: set[Any]) -> bool:
    """Whether a node is one small tensor that depends on nothing but these constants."""
    schema, known = getattr(node.target, "_schema", None), form(node)
    if schema is None or schema.is_mutable or len(schema.returns) != 1 or not hasattr(known, "shape"):
        return False
    if torch.Tag.nondeterministic_seeded in node.target.tags or known.shape.numel() > LARGEST:
        return False
    if node.target in FILLED:
        return form(node.args[0]) is not None
    return all(other in made for other in node.all_input_nodes)


def _given(traced: Traced, node: Any) -> list[Any]:
    """The arguments of a node that depends on constants, or on a form alone."""
    if node.target in FILLED:
        like = form(node.args[0])
        return [torch.empty_strided(like.shape, like.stride, dtype=like.dtype), *node.args[1:]]
    return [traced.own[str(v.target)] if isinstance(v, Node) else v for v in node.args]


def compute_once(graph: Graph) -> None:
    """What is computed twice of the same tensors, and is written to by nobody, as they are."""
    used, known = _changed_or_shown(graph), dict[str, Any]()
    for node in list(graph.nodes):
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or schema.is_mutable:
            continue
        if torch.Tag.nondeterministic_seeded in node.target.tags:
            continue
        if {owner(node), *map(owner, node.all_input_nodes)} & used:
            continue
        twin = known.setdefault(f"{node.target} {node.args} {node.kwargs}", node)
        if twin is not node:
            swap(node, twin)

"""How stacked clients' weights are moved by plain SGD in a recorded step: what moves them is added where it is made."""

from __future__ import annotations

from typing import Any

from torch.fx import Graph, Node

from unskew.engines.graph import aten, calls, form, owner, same_form, written


def add_moves(graph: Graph) -> None:
    """w - r (a b), r one number per client: the product is added to w as it is computed. Where a direction is a sum,
    what else stands in it is added by itself, which is a pass over memory less than to make the sum."""
    for node in calls(graph, aten._foreach_addcmul_.Scalar):
        weights, directions, rates, *factor = node.args
        value = factor[0] if factor else 1
        sums = [_terms(graph, d, r, node) for d, r in zip(directions, rates, strict=True)]
        with graph.inserting_before(node):
            for w, r, terms in zip(weights, rates, sums, strict=True):
                for d, sign, joined in terms:
                    if joined:
                        a, b = d.args
                        scaled = graph.call_function(aten.mul.Tensor, (a, r))
                        graph.call_function(aten.baddbmm_.default, (w, scaled, b), {"alpha": sign * value})
                    else:
                        graph.call_function(aten.addcmul_.default, (w, d, r), {"value": sign * value})
        graph.erase_node(node)


def _terms(graph: Graph, direction: Any, rate: Any, update: Any) -> list[tuple[Any, int, bool]]:
    """What a direction is the sum of, each with its sign and whether it is a product that may be computed in the
    update; the direction itself where none of it is."""
    found, left = [], [(direction, 1)]
    while left:
        node, sign = left.pop()
        if node.target in (aten.add.Tensor, aten.sub.Tensor) and _is_own_sum(graph, node, direction, update):
            one, other = node.args
            left += [(other, sign if node.target is aten.add.Tensor else -sign), (one, sign)]
        else:
            found.append((node, sign, _can_wait(graph, node, rate, update)))
    return found if any(joined for *_, joined in found) else [(direction, 1, False)]


def _is_own_sum(graph: Graph, node: Any, direction: Any, update: Any) -> bool:
    """Whether a node is a sum of two tensors that nobody else reads, and that stay as they are until the update."""
    if len(node.users) > 1 or node.kwargs or not all(isinstance(part, Node) for part in node.args):
        return False
    if not same_form(node, direction) or form(node).stride != form(direction).stride:
        return False
    if any(form(part) is None or form(part).dtype != form(node).dtype for part in node.args):
        return False
    return not {owner(part) for part in node.args} & written(graph, node, update)


def _can_wait(graph: Graph, direction: Any, rate: Any, update: Any) -> bool:
    """Whether a direction is a product that may be computed in the update, one weight after the other.

    Not where one of its factors is a weight, as in a layer of two factors: it would have moved by then.
    """
    if direction.target is not aten.bmm.default or len(direction.users) > 1:
        return False
    a_number_each = tuple(rate.meta["form"].shape[1:]) == (1, 1)
    return a_number_each and not {owner(f) for f in direction.args} & written(graph, direction, update)

"""What is rewritten in the recorded step of one client: the same numbers up to rounding, in less time on a CPU."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph

from unskew.engines.dense_products import mkl_is_half_as_fast, multiply_by_onednn
from unskew.engines.graph import aten, calls, form, owner, swap
from unskew.engines.recorded import rewrite_graph
from unskew.engines.traced import Traced


def rewrite_alone(traced: Traced, weights: int) -> Callable[..., Any]:
    """The recorded step: its first arguments are weights, its last how far a gradient is to move them.

    Of its first results, the gradients, the first ``weights`` may be None: they have moved their weight already.
    """
    rewrite_graph(traced)
    _sum_biases_apart(traced.graph)
    _lay_out_alike(traced.graph)
    _work_in_place(traced.graph)
    _add_products(traced.graph, weights)
    if mkl_is_half_as_fast():
        multiply_by_onednn(traced.graph)
    return traced.compiled()


def _sum_biases_apart(graph: Graph) -> None:
    """The gradient of a filter's bias as a sum of its own: oneDNN's takes several times as long.

    Where a max pooling follows, it is summed before it is spread: each of its numbers goes to one place.
    """
    for node in calls(graph, aten.convolution_backward.default):
        gradient, mask = node.args[0], node.args[10]
        if gradient.target is aten.max_pool2d_with_indices_backward.default:
            gradient = gradient.args[0]
        if not mask[2] or form(gradient) is None:
            continue
        over = [axis for axis in range(len(form(gradient).shape)) if axis != 1]
        with graph.inserting_before(node):  # while it is at hand
            summed = graph.call_function(aten.sum.dim_IntList, (gradient, over))
        for part in [user for user in node.users if user.args[1] == 2]:
            swap(part, summed)
        node.update_arg(10, [*mask[:2], False])


def _lay_out_alike(graph: Graph) -> None:
    """ReLU's gradient comes in another layout where images were flattened: copied first, it is six times as fast."""
    for node in calls(graph, aten.threshold_backward.default):
        gradient, outputs = map(form, node.args[:2])
        if None in (gradient, outputs) or gradient.stride == outputs.stride:
            continue
        if outputs.channels_last:
            with graph.inserting_before(node):
                layout: dict[str, Any] = {"memory_format": torch.channels_last}
                copied = graph.call_function(aten.clone.default, (node.args[0],), layout)
            copied.meta["form"] = outputs
            node.update_arg(0, copied)


def _work_in_place(graph: Graph) -> None:
    """ReLU and its gradient over what nobody else reads: memory that the processor has at hand."""
    for node in calls(graph, aten.relu.default, aten.threshold_backward.default):
        given = node.args[0]
        if not _read_once(given) or form(given) is None or form(given).stride != form(node).stride:
            continue
        if node.target is aten.relu.default:
            node.target = aten.relu_.default
        else:
            node.target = aten.threshold_backward.grad_input
            node.kwargs = {"grad_input": given}


def _read_once(node: Any) -> bool:
    """Whether a node makes a tensor of its own that one other node reads, and no view shows."""
    if node.op != "call_function" or len(node.users) != 1:
        return False
    if node.target is not operator.getitem:
        return owner(node) is node
    made = node.args[0]
    twins = [user for user in made.users if user.args[1:] == node.args[1:]]
    return owner(made) is made and len(twins) == 1


def _add_products(graph: Graph, weights: int) -> None:
    """A weight's gradient that is a product is added to the weight as it is computed, times the step's move.

    Only where all others that read the weight come before, and neither factor is a weight itself, as in a layer of two
    factors: those are read again, or have moved by then.
    """
    nodes = list(graph.nodes)
    given, output = [node for node in nodes if node.op == "placeholder"], nodes[-1]
    moving, move = given[:weights], given[-1]
    results = list(output.args[0])
    for i, weight in enumerate(moving):
        product = results[i]
        if (
            product.target is not aten.mm.default
            or {*product.users} != {output}
            or results.count(product) > 1
        ):
            continue
        readers = {user for shown in nodes if owner(shown) is weight for user in shown.users}
        last = max(map(nodes.index, readers), default=-1)
        if last < nodes.index(product) and not {*map(owner, product.args)} & {*moving}:
            with graph.inserting_before(product):
                a, b = product.args
                moved = graph.call_function(aten.mul.Tensor, (a, move))
                moved.meta = a.meta
                graph.call_function(aten.addmm_.default, (weight, moved, b))
            results[i] = None
    output.args = (results,)

"""A rewritten graph as a function that costs Python little.

Recording ends in operations of torch's dispatcher, whose calls from Python look their arguments up in a schema: 2.4
microseconds for a small product, where ``torch.mm``, the same operation by the name that people call it, takes 1.5. A
step of small tensors is some fifty such calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node


def ready(traced: GraphModule) -> Callable[..., Any]:
    """What a graph does, by direct calls; ``traced`` keeps the operations that rewrites look for."""
    traced.graph.eliminate_dead_code()  # here, while operations say whether they write
    direct = Graph()
    direct.output(direct.graph_copy(traced.graph, {}))
    for node in direct.nodes:
        if node.op == "call_function":
            _call_directly(node)
    return GraphModule(traced, direct).forward


def _call_directly(node: Node) -> None:
    """Name the function or the method of torch that an operation is, if it has one that is no Python itself."""
    operation: Any = node.target
    if not isinstance(operation, torch._ops.OpOverload) or operation.namespace != "aten":
        return
    if operation._schema.overload_name.endswith(("out", "grad_input")):  # which take results as arguments
        return
    name = operation._schema.name.removeprefix("aten::")
    function: Callable[..., Any] = getattr(torch, name, _call_directly)
    method = getattr(torch.Tensor, name, None)
    if function is getattr(torch._C._VariableFunctions, name, None):
        node.target = function
    elif method and method is getattr(torch._C.TensorBase, name, None):
        node.op, node.target = "call_method", name

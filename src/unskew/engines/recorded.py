"""A step of stacked clients on a CPU, recorded once as a flat list of operations and replayed.

For small dense models Python, ``vmap`` and autograd cost more than the arithmetic. All that they do is the same in
every step, so the operations that they end in are recorded (``make_fx``), cleared of those that do nothing, and
replayed over other tensors of the same shapes. Two rewrites save passes over memory: a weight's gradient is
computed in the layout of the weight, and where it only moves the weight the product is added to the weight itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from unskew.client import Pool, Task
from unskew.engines.stacked import Block, Stepper, tensors, with_tensors

aten = torch.ops.aten

Recording = Callable[..., Any]

KEPT = 256
"""Recordings kept; a run whose sizes never settle makes them anew."""

BY_STEP = ("index", "weight", "rate", "seeds", "draws")
"""What is looked up step by step; how many steps there are changes nothing."""


def play_recorded(task: Task, pool: Pool, block: Block, known: dict[Any, Recording]) -> None:
    """Train a block by recorded steps; ``known`` keeps them for the next block."""
    stepper = Stepper(task, pool, block)
    now = torch.zeros(1, dtype=torch.int64)
    held: dict[str, Tensor] = {}
    clients = 0
    with torch.no_grad():
        for s in range(block.steps):
            if block.active[s] != clients:
                clients = block.active[s]
                held = _first_rows(stepper, clients)
            values = [pool.x, pool.y, now, *held.values()]
            shapes = tuple((v.dtype, v.shape[1:], v.stride()[1:]) for v in values)
            sizes = tuple(len(v) for name, v in held.items() if name.split("/")[0] not in BY_STEP and v.dim())
            key = (
                task.net,
                task.objectives,
                task.local,
                clients,
                block.padded[s],
                block.own_anchor,
                shapes,
                sizes,
            )
            if key not in known:
                if len(known) >= KEPT:
                    known.clear()
                known[key] = _record(stepper, clients, block.padded[s], [*held], values)
            known[key](*values)


def _first_rows(stepper: Stepper, clients: int) -> dict[str, Tensor]:
    block = stepper.block
    found = tensors(block) | {f"state/{k}": v for k, v in stepper.state.items()} | {"losses": block.losses}
    whole = ("shared",) if block.own_anchor else ("shared", "anchor")

    def rows(name: str, value: Tensor) -> Tensor:
        kind = name.split("/")[0]
        return value if kind in whole else value[:, :clients] if kind in BY_STEP else value[:clients]

    return {name: rows(name, value) for name, value in found.items()}


def _record(
    stepper: Stepper, clients: int, padded: bool, names: list[str], values: list[Tensor]
) -> Recording:
    from torch.fx.experimental.proxy_tensor import make_fx  # takes half a second to load

    def step(*given: Tensor) -> Tensor:
        x, y, now, *rest = given
        found = dict(zip(names, rest, strict=True))
        block = with_tensors(stepper.block, {k: v for k, v in found.items() if not k.startswith("state/")})
        block = replace(block, errands=block.errands[:clients])
        block.losses = found["losses"]
        here = Stepper(stepper.task, replace(stepper.pool, x=x, y=y), block)
        here.state = {k.removeprefix("state/"): v for k, v in found.items() if k.startswith("state/")}
        here.step(now, clients, padded)
        now += 1
        return now

    with torch.enable_grad():
        samples, aside = values[:2], [v.clone() for v in values[2:]]  # recording runs the step once
        traced = make_fx(step)(*samples, *aside)
    _drop_what_does_nothing(traced.graph)
    _compute_as_used(traced.graph)
    _turn_back(traced.graph)
    _add_in_place(traced.graph)
    _make_constants_once(traced)
    traced.graph.eliminate_dead_code()
    traced.recompile()
    return traced.forward


def _shape(node: Any) -> Any:
    return node.meta["tensor_meta"].shape if "tensor_meta" in node.meta else None


def _calls(graph: Graph, *targets: Any) -> list[Any]:  # a node's arguments are typed as anything there is
    return [node for node in graph.nodes if node.op == "call_function" and node.target in targets]


def _swap(node: Node, by: Any) -> None:
    node.replace_all_uses_with(by)
    node.graph.erase_node(node)


def _drop_what_does_nothing(graph: Graph) -> None:
    """Views that show all there is in the shape it has, and copies of what nothing changes meanwhile."""
    for node in _calls(graph, aten.detach.default, aten.alias.default):
        _swap(node, node.args[0])
    same = (aten.expand.default, aten.view.default, aten._unsafe_view.default, aten.slice.Tensor)
    for node in _calls(graph, *same):
        if _shape(node) == _shape(node.args[0]):
            _swap(node, node.args[0])
    unchanged = set()
    for node in graph.nodes:
        if (
            node.op == "call_function"
            and getattr(node.target, "_schema", None)
            and node.target._schema.is_mutable
        ):
            break
        unchanged.add(node)
    for node in _calls(graph, aten.mul.Scalar):
        if node.args[1] == 1 and all(user in unchanged for user in node.users):
            _swap(node, node.args[0])


def _turn_back(graph: Graph) -> None:
    """What is turned twice is itself."""
    for node in _calls(graph, aten.transpose.int):
        inner = node.args[0]
        if inner.target is aten.transpose.int and inner.args[1:] == node.args[1:]:
            _swap(node, inner.args[0])


def _make_constants_once(traced: torch.fx.GraphModule) -> None:
    for number, node in enumerate(_calls(traced.graph, aten.scalar_tensor.default)):
        traced.register_buffer(f"constant{number}", node.target(*node.args, **node.kwargs))
        with traced.graph.inserting_before(node):
            _swap(node, traced.graph.get_attr(f"constant{number}"))


def _compute_as_used(graph: Graph) -> None:
    """(a b)^T is b^T a^T: a product that is only used turned is computed turned."""
    for node in _calls(graph, aten.transpose.int):
        product = node.args[0]
        if product.target is not aten.bmm.default or len(product.users) > 1 or {*node.args[1:]} != {1, 2}:
            continue
        with graph.inserting_before(node):
            a, b = (graph.call_function(aten.transpose.int, (m, 1, 2)) for m in product.args)
            turned = graph.call_function(aten.bmm.default, (b, a))
        turned.meta = node.meta
        _swap(node, turned)
        graph.erase_node(product)


def _add_in_place(graph: Graph) -> None:
    """w - r (a b), r one number a client: the product is added to w as it is computed."""
    for node in _calls(graph, aten._foreach_addcmul_.Scalar):
        weights, directions, rates, value = node.args
        with graph.inserting_before(node):
            for w, d, r in zip(weights, directions, rates, strict=True):
                if d.target is aten.bmm.default and len(d.users) == 1:
                    a, b = d.args
                    scaled = graph.call_function(aten.mul.Tensor, (a, r))
                    graph.call_function(aten.baddbmm_.default, (w, scaled, b), {"alpha": value})
                else:
                    graph.call_function(aten.addcmul_.default, (w, d, r), {"value": value})
        graph.erase_node(node)

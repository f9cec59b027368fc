"""A step of stacked clients on a CPU, recorded once as a flat list of operations and replayed.

For small dense models Python, ``vmap`` and autograd cost more than the arithmetic. All that they do is the same in
every step, so the operations that they end in are recorded (``traced.py``), cleared of those that do nothing, and
replayed over other tensors of the same shapes. Two rewrites save passes over memory: a weight's gradient is
computed in the layout of the weight, and where it only moves the weight the product is added to the weight itself.
A first layer whose weights do nothing else is not even multiplied step by step (``first_layer.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.nn.functional import pad

from unskew.core.client import Pool
from unskew.core.memory import flatten, nest
from unskew.core.optimisers import is_plain
from unskew.core.step import LocalTraining
from unskew.engines.added_moves import add_moves
from unskew.engines.client_stack import ClientStack, tensors, with_tensors
from unskew.engines.constants import compute_once, make_constants_once
from unskew.engines.first_layer import FirstLayers, lift_first_layers, plan_first_layers
from unskew.engines.graph import alike, aten, calls, owner, same_form, shaken, swap, written
from unskew.engines.stacked import Stepper
from unskew.engines.traced import Traced, trace


@dataclass(frozen=True)
class Recording:
    """A step to replay, and the layers whose weights it leaves as they are until the visit ends."""

    play: Callable[..., Any]
    lifted: tuple[str, ...] = ()


KEPT = 256
"""Recordings kept; a run whose sizes never settle makes them anew."""

BY_STEP = ("index", "weight", "rate", "seeds", "draws")
"""What is looked up step by step; how many steps there are changes nothing."""

MOVING = ("params", "buffers", "state", "losses")
"""What a step changes."""


def play_recorded(
    training: LocalTraining, pool: Pool, block: ClientStack, known: dict[Any, Recording]
) -> None:
    """Train a block by recorded steps; ``known`` keeps them for the next block."""
    block = _widened(block)
    stepper = Stepper(training, pool, block)
    now = torch.zeros(1, dtype=torch.int64)
    held: dict[str, Tensor] = {}
    values: list[Tensor] = []
    alike: tuple[Any, ...] = ()
    clients = 0
    first = plan_first_layers(block, pool)
    lifted: list[Tensor] = []
    shown: tuple[int, tuple[str, ...]] = (0, ())
    # one rate lets a rule of several terms move all clients' weights in one pass; plain SGD has a better way, below
    one_rate = stepper.rate is not None and not is_plain(stepper.local_step.rule)
    with torch.no_grad():
        for s in range(block.steps):
            if block.active[s] != clients:
                clients = block.active[s]
                held = _first_rows(stepper, clients)
                values = [pool.x, pool.y, now, *held.values()]
                alike = (
                    training.net,
                    repr(training.objectives),
                    training.local,
                    block.own_anchor,
                    *layout_key(held),
                )
            padded = training.net.norms and block.padded[s]  # without batch norm it makes no difference
            key = (alike, clients, padded, first is not None, one_rate)
            if key not in known:
                if len(known) >= KEPT:
                    known.clear()
                known[key] = _record(stepper, clients, padded, [*held], values, first, one_rate)
            step = known[key]
            if first is not None and (clients, step.lifted) != shown:
                shown = clients, step.lifted
                lifted = first.first_rows(clients, step.lifted, block.params, pool)
            step.play(*values, *lifted)
        if first is not None:
            first.end(block.params)


def _widened(block: ClientStack) -> ClientStack:
    """The block with room for 1, 2, 4, 8 ... samples in a batch, or a whole batch: a recording takes 0.1 seconds,
    and clients of few samples come in all sizes."""
    width = block.index.shape[2]
    room = max(width, min(1 << (width - 1).bit_length(), max(e.plan.batch for e in block.client_jobs)))
    if room == width:
        return block
    index, weight = (pad(value, (0, room - width)) for value in (block.index, block.weight))
    wide = replace(block, index=index, weight=weight, padded=[True] * block.steps)
    wide.losses = block.losses
    return wide


def layout_key(held: dict[str, Tensor]) -> list[tuple[Any, ...]]:
    """Names, types, shapes and strides: what operations depend on beside the numbers."""
    return [
        (name, v.dtype, v.shape[1:], v.stride()[1:])
        if name.split("/")[0] in BY_STEP
        else (name, v.dtype, v.shape, v.stride())
        for name, v in held.items()
    ]


def _first_rows(stepper: Stepper, clients: int) -> dict[str, Tensor]:
    block = stepper.block
    found = (
        tensors(block)
        | {f"state/{path}": v for path, v in flatten(stepper.state).items()}
        | {"losses": block.losses}
    )
    whole = ("shared",) if block.own_anchor else ("shared", "anchor")

    def rows(name: str, value: Tensor) -> Tensor:
        kind = name.split("/")[0]
        return value if kind in whole else value[:, :clients] if kind in BY_STEP else value[:clients]

    return {name: rows(name, value) for name, value in found.items()}


def _record(
    stepper: Stepper,
    clients: int,
    padded: bool,
    names: list[str],
    values: list[Tensor],
    first: FirstLayers | None,
    one_rate: bool,
) -> Recording:
    def step(*given: Tensor) -> Tensor:
        x, y, now, *rest = given
        found = dict(zip(names, rest, strict=True))
        block = with_tensors(stepper.block, {k: v for k, v in found.items() if not k.startswith("state/")})
        block = replace(block, client_jobs=block.client_jobs[:clients])
        block.losses = found["losses"]
        here = Stepper(stepper.training, replace(stepper.pool, x=x, y=y), block)
        here.state = nest({k.removeprefix("state/"): v for k, v in found.items() if k.startswith("state/")})
        here.step(now, clients, padded, one_rate)
        now += 1
        return now

    # recording runs the step once, on copies of what it changes
    aside = [v.clone() if n.split("/")[0] in MOVING else v for n, v in zip(names, values[3:], strict=True)]
    traced = trace(step, [*values[:2], values[2].clone(), *aside])
    rewrite_graph(traced)
    play = traced.compiled()
    as_written = torch.enable_grad()(step)
    given = dict(zip(["x", "y", "now", *names], values, strict=True))
    if not _does_as(as_written, play, given):
        return Recording(as_written)
    if first is None or not (lifted := lift_first_layers(traced, names, stepper.pool)):
        return Recording(play)
    play = traced.compiled()
    here = FirstLayers(first.places[:clients], first.rows[:, :clients])

    def play_lifted(*theirs: Tensor) -> None:
        params = {k.removeprefix("params/"): v for k, v in zip(given, theirs, strict=True) if "params/" in k}
        play(*theirs, *here.first_rows(clients, lifted, params, stepper.pool))
        here.end(params)

    return Recording(play, lifted) if _does_as(as_written, play_lifted, given) else Recording(as_written)


def _does_as(step: Callable[..., Any], play: Callable[..., Any], given: dict[str, Tensor]) -> bool:
    """Whether a recording does what the step does, on other numbers than it was recorded of."""
    samples, rest = list(given.values())[:2], list(given.values())[2:]
    padding = {at for at, name in enumerate([*given][2:]) if name == "weight"}  # stays padding
    mine, theirs = shaken(rest, padding), shaken(rest, padding)
    try:
        step(*samples, *mine)
        play(*samples, *theirs)
    except Exception:  # as written it says better what is wrong
        return False
    moved = [i for i, v in enumerate(mine) if v.is_floating_point()]
    return alike([mine[i] for i in moved], [theirs[i] for i in moved])


def rewrite_graph(traced: Traced) -> None:
    """Let what was recorded do the same with less."""
    _drop_what_does_nothing(traced.graph)
    _compute_as_used(traced.graph)
    _turn_back(traced.graph)
    add_moves(traced.graph)
    compute_once(traced.graph)
    make_constants_once(traced)
    traced.graph.eliminate_dead_code()


def _drop_what_does_nothing(graph: Graph) -> None:
    """Views that show all there is in the shape it has, and copies of what nothing changes meanwhile."""
    for node in calls(graph, aten.detach.default, aten.alias.default):
        swap(node, node.args[0])
    same = (aten.expand.default, aten.view.default, aten._unsafe_view.default, aten.slice.Tensor)
    for node in calls(graph, *same):
        if same_form(node, node.args[0]):
            swap(node, node.args[0])
    for node in calls(graph, aten.mul.Scalar, aten.pow.Tensor_Scalar):
        original, times = node.args
        if times != 1 or not same_form(node, original):
            continue
        nodes = list(graph.nodes)
        readers = {user for shown in nodes if owner(shown) is node for user in shown.users}
        last = max(readers, key=nodes.index, default=node)
        if not {node, owner(original)} & written(graph, node, last):
            swap(node, original)


def _turn_back(graph: Graph) -> None:
    """What is turned twice is itself."""
    for node in calls(graph, aten.transpose.int):
        inner = node.args[0]
        if inner.target is aten.transpose.int and inner.args[1:] == node.args[1:]:
            swap(node, inner.args[0])
    for node in calls(graph, aten.t.default):
        if node.args[0].target is aten.t.default:
            swap(node, node.args[0].args[0])


def _compute_as_used(graph: Graph) -> None:
    """(a b)^T is b^T a^T: a product that is only used turned is computed turned."""
    for node in calls(graph, aten.transpose.int):
        product = node.args[0]
        if product.target is not aten.bmm.default or len(product.users) > 1 or {*node.args[1:]} != {1, 2}:
            continue
        if _seen_in_another_shape(node):  # which the other layout may not allow
            continue
        with graph.inserting_before(product):  # here, since what it is made of may change later
            a, b = (graph.call_function(aten.transpose.int, (m, 1, 2)) for m in product.args)
            turned = graph.call_function(aten.bmm.default, (b, a))
        turned.meta = node.meta
        for copied in [user for user in node.users if user.target is aten.clone.default]:
            if copied.kwargs == {"memory_format": torch.contiguous_format}:  # as it lies now
                swap(copied, turned)
        swap(node, turned)
        graph.erase_node(product)


def _seen_in_another_shape(node: Node) -> bool:
    """Whether a view, or a view of a view, changes the shape in which a node's memory is seen."""
    return any(
        user.target in (aten.view.default, aten._unsafe_view.default)
        or (owner(user) is not user and _seen_in_another_shape(user))
        for user in node.users
    )

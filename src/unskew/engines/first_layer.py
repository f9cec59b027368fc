"""A dense first layer of stacked clients, trained without touching its weights step by step.

Plain SGD moves such a layer only along the samples that it was shown. After any number of steps its weights are W -
D'X, where X are the client's samples and row i of D sums rate x gradient of the layer's outputs over all uses of sample
i. So the layer's outputs are XW' - XX'D.

XW' and XX' are computed once a visit, in large products. A step reads and adds a few rows, as many as its batch has.
The weights are made once, at the end. It is the same sum in another order, with a fraction of the multiplications where
a client sees its samples several times.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.fx import Node

from unskew.core.client import Pool
from unskew.core.types import Tree
from unskew.engines.client_stack import ClientStack
from unskew.engines.traced import Traced

aten = torch.ops.aten

WORTH = 0.8
"""The share of the plain step's multiplications below which samples are multiplied once a visit instead."""

LARGEST = 128 * 2**20
"""Bytes that a block's samples and their products may take."""

VIEWS = (aten.view.default, aten._unsafe_view.default, aten.squeeze.dim)


@dataclass
class FirstLayers:
    """A block's samples, what was made of them, and how each sample has moved the layers so far."""

    places: Tensor  # [clients, samples] in the pool, each sample once
    rows: Tensor  # [steps, clients, batch] places in the flattened [clients x samples]
    samples: Tensor = field(init=False)  # [clients, samples, inputs]
    products: Tensor = field(init=False)  # [clients x samples, samples]: XX'
    layers: dict[str, tuple[Tensor, Tensor]] = field(default_factory=dict)  # name -> XW' flattened, and D

    def first_rows(self, clients: int, names: tuple[str, ...], params: Tree, pool: Pool) -> list[Tensor]:
        """What a step of the first clients takes that lifts these layers, in the order of ``lift_first_layers``."""
        if names != tuple(self.layers):
            self.end(params)
            self._begin(names, params, pool)
        layers = [v for outputs, moves in self.layers.values() for v in (outputs, moves[:clients])]
        return [self.rows[:, :clients], self.products, *layers] if names else []

    def _begin(self, names: tuple[str, ...], params: Tree, pool: Pool) -> None:
        """Multiply the samples by each other and by these weights, as they are now."""
        x = self.samples = pool.take(self.places)[0].flatten(2)
        self.products = torch.bmm(x, x.transpose(1, 2)).flatten(0, 1)
        for name in names:
            outputs = torch.bmm(x, params[name].transpose(1, 2))
            self.layers[name] = outputs.flatten(0, 1), torch.zeros_like(outputs)

    def end(self, params: Tree) -> None:
        """Move the weights as far as all steps together did."""
        for name, (_, moves) in self.layers.items():
            params[name].baddbmm_(moves.transpose(1, 2), self.samples, alpha=-1)
        self.layers = {}


def plan_first_layers(block: ClientStack, pool: Pool) -> FirstLayers | None:
    """Which samples a block's clients see, where multiplying them once a visit is less work than at every step."""
    steps, clients, batch = block.index.shape
    inputs = math.prod(pool.x.shape[1:])
    outputs = max(
        (v.shape[1] for v in block.params.values() if v.dim() == 3 and v.shape[2] == inputs), default=0
    )
    if not outputs or not steps:
        return None
    index, used = block.index.numpy(), block.weight.numpy() > 0
    seen = [np.unique(index[:, i][used[:, i]], return_inverse=True) for i in range(clients)]
    most = max(len(own) for own, _ in seen)
    plain = 2 * steps * batch * inputs * outputs
    lifted = 2 * most * inputs * outputs + most * most * inputs + steps * batch * most * outputs
    size = clients * most * (inputs + most + 2 * outputs) * pool.mean.element_size()
    if not most or lifted > WORTH * plain or size > LARGEST:
        return None
    places = np.zeros((clients, most), np.int64)
    rows = np.zeros((steps, clients, batch), np.int64)  # padding reads and moves row 0 by nothing
    for i, (own, at) in enumerate(seen):
        places[i, : len(own)] = own
        rows[:, i][used[:, i]] = at
        rows[:, i] += i * most
    return FirstLayers(torch.from_numpy(places), torch.from_numpy(rows))


def lift_first_layers(traced: Traced, names: list[str], pool: Pool) -> tuple[str, ...]:
    """Rewrite a recorded step so that dense layers on the samples need no weights; the names of those that could.

    A layer can where its weights do nothing but multiply the samples and take the step of plain SGD.
    """
    graph = traced.graph
    given = [node for node in graph.nodes if node.op == "placeholder"]
    now, rest = given[2], given[3:]
    by_name = dict(zip(names, rest, strict=True))
    batch = _BatchOfPool(traced, pool, given[0], by_name["index"], now)
    found = {}
    for name, weight in by_name.items():
        if name.startswith("params/") and (layer := _layer_on_samples(weight, batch)):
            found[name.removeprefix("params/")] = layer
    if not found:
        return ()
    with graph.inserting_after(given[-1]):
        added = [graph.placeholder(f"lifted{i}") for i in reversed(range(2 + 2 * len(found)))][::-1]
    rows, products, *layers = added
    for (forward, update), outputs, moves in zip(found.values(), layers[::2], layers[1::2], strict=True):
        clients, batch, width = forward.meta["form"].shape
        with graph.inserting_before(forward):
            call = graph.call_function
            at = call(aten.view.default, (call(aten.index_select.default, (rows, 0, now)), [-1]))
            plain = call(aten.index_select.default, (outputs, 0, at))
            plain = call(aten.view.default, (plain, [clients, batch, width]))
            pairs = call(aten.index_select.default, (products, 0, at))
            pairs = call(aten.view.default, (pairs, [clients, batch, -1]))
            out = call(aten.baddbmm.default, (plain, pairs, moves), {"alpha": -1})
        forward.replace_all_uses_with(out)
        turned, rate = update.args[1].args
        with graph.inserting_before(update):
            moved = call(aten.mul.Tensor, (turned.args[0], rate))
            moved = call(aten.reshape.default, (moved, [-1, width]))
            flat = call(aten.view.default, (moves, [-1, width]))
            call(aten.index_add_.default, (flat, 0, at, moved), {"alpha": -update.kwargs["alpha"]})
        graph.erase_node(update)
    return tuple(found)


def _layer_on_samples(weight: Node, batch: _BatchOfPool) -> tuple[Any, Any] | None:
    """The product of the samples by this weight and the step that moves it, where these are its only uses."""
    turned = [n for n in weight.users if n.target is aten.transpose.int and {*n.args[1:]} == {1, 2}]
    updates = [n for n in weight.users if n.target is aten.baddbmm_.default and n.args[0] is weight]
    if len(weight.users) != 2 or len(turned) != 1 or len(updates) != 1 or len(turned[0].users) != 1:
        return None
    (forward,), update = turned[0].users, updates[0]
    if forward.target is not aten.bmm.default or update.users or {*update.kwargs} != {"alpha"}:
        return None
    x, other = forward.args
    scaled: Any = update.args[1]
    scaled_here = scaled.target is aten.mul.Tensor and len(scaled.users) == 1
    if other is not turned[0] or update.args[2] is not x or not scaled_here:
        return None
    gradient = scaled.args[0]
    if gradient.target is not aten.transpose.int or {*gradient.args[1:]} != {1, 2}:
        return None
    return (forward, update) if batch.is_shown_by(x) else None


@dataclass(frozen=True)
class _BatchOfPool:
    """The samples of a recorded step, as ``Pool.take`` gives them: looked up, converted, normalised."""

    traced: Traced
    pool: Pool
    samples: Node
    index: Node
    now: Node

    def is_shown_by(self, node: Any) -> bool:
        """Whether a node is these samples, laid out in a row each, and nothing else. What a model does to them
        beforehand is not our normalisation, however much it looks like it."""
        shape = node.meta["form"].shape
        if len(shape) != 3 or shape[:2] != self.index.meta["form"].shape[1:]:
            return False
        for target, constant in ((aten.div.Tensor, self.pool.std), (aten.sub.Tensor, self.pool.mean)):
            node = _unviewed(node)
            if node.target is not target or not self._is_constant(node.args[1], constant):
                return False
            node = node.args[0]
        node = _unviewed(node)
        if node.target is aten._to_copy.default and node.kwargs.get("dtype") is self.pool.mean.dtype:
            node = _unviewed(node.args[0])
        if node.target is not aten.index_select.default or node.args[:2] != (self.samples, 0):
            return False
        places = _unviewed(node.args[2])
        return places.target is aten.index_select.default and places.args == (self.index, 0, self.now)

    def _is_constant(self, node: Any, value: Tensor) -> bool:
        if not isinstance(node, Node) or node.op != "get_attr":
            return False
        found = self.traced.own[str(node.target)]
        return found is value or (found.data_ptr() == value.data_ptr() and found.shape == value.shape)


def _unviewed(node: Any) -> Any:
    """What a node shows in another shape."""
    while node.target in VIEWS:
        node = node.args[0]
    return node

"""A graph made ready to be replayed: the same numbers, by the names that people call torch by."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unskew.engines.graph import aten, calls, trace
from unskew.engines.replay import ready


def step(weight: Tensor, x: Tensor) -> list[Tensor]:
    """A product added where it lies, a view, a sum, and two operations that have no name but the dispatcher's."""
    out = torch.relu(torch.addmm(weight.sum(0), x, weight.t()))
    pooled, places = aten.max_pool2d_with_indices.default(out.view(1, 1, 4, 4), [2, 2], [2, 2])
    aten.threshold_backward.grad_input(pooled, pooled, 0.5, grad_input=pooled)
    aten.addmm_.default(weight, out, out, beta=1, alpha=-0.5)
    return [weight, pooled, places, out]


def test_operations_are_called_by_name_where_they_have_one() -> None:
    """All but the pooling and the threshold, which are torch's inner ones; numbers stay, to the bit."""
    given = torch.randn(4, 4), torch.randn(4, 4)
    traced = trace(step, [v.clone() for v in given])
    play: Any = ready(traced)
    for found, expected in zip(
        play(*(v.clone() for v in given)), step(*(v.clone() for v in given)), strict=True
    ):
        assert torch.equal(found, expected)
    left = [n.target for n in play.__self__.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]
    assert left == [aten.max_pool2d_with_indices.default, aten.threshold_backward.grad_input]
    assert calls(traced.graph, aten.addmm_.default)  # which rewrites may still look for

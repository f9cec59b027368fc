"""torch's own kernels that move all weights at once, which GPUs use: the moves are those of the rules written out."""

from __future__ import annotations

import pytest
import torch

from unskew.core import optimisers
from unskew.core.optimisers import optimizer
from unskew.core.slots import Local
from unskew.core.types import Tree, leaves


def moved(local: Local, monkeypatch: pytest.MonkeyPatch, *, fused: bool) -> list[torch.Tensor]:
    """Weights and what the rule remembers after three steps against given gradients."""
    monkeypatch.setattr(optimisers, "_in_one_kernel", lambda *_: fused)
    numbers = torch.Generator().manual_seed(0)
    params: Tree = {"a": torch.randn(3, 4, generator=numbers), "b": torch.randn(5, generator=numbers)}
    rule = optimizer(local)
    state = rule.init(params)
    for step in range(3):
        grads = {k: torch.randn(v.shape, generator=numbers) for k, v in params.items()}
        rule.step(params, grads, state, torch.tensor(0.1 / (step + 1)), torch.tensor(step))
    return [*params.values(), *leaves(state)]


@pytest.mark.parametrize(
    "local",
    [
        Local(),
        Local(weight_decay=0.01),
        Local(momentum=0.9),
        Local(momentum=0.9, nesterov=True, weight_decay=0.01),
        Local(optimizer="adam"),
        Local(optimizer="adam", weight_decay=0.01),
    ],
    ids=["plain", "decay", "momentum", "nesterov", "adam", "adam with decay"],
)
def test_one_kernel_moves_weights_as_the_rule_says(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rate that falls, to rounding."""
    expected = moved(local, monkeypatch, fused=False)
    found = moved(local, monkeypatch, fused=True)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)

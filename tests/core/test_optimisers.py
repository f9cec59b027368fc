"""Local optimisers against torch's own, step by step."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from unskew.core.optimisers import clip, optimizer
from unskew.core.slots import Local
from unskew.errors import InputError

RULES: list[tuple[dict[str, Any], Any]] = [
    ({}, lambda p: torch.optim.SGD(p, 0.1)),
    ({"momentum": 0.9}, lambda p: torch.optim.SGD(p, 0.1, momentum=0.9)),
    (
        {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    ),
    (
        {"optimizer": "adam", "weight_decay": 0.1},
        lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.1),
    ),
]


@pytest.mark.parametrize(("given", "theirs"), RULES)
def test_five_steps_agree_with_torch_to_rounding(given: dict[str, Any], theirs: Any) -> None:
    """The same gradients, a matrix and a scalar, give the same weights to 1e-12 in float64."""
    draw = torch.Generator().manual_seed(0)
    start = {"w": torch.randn(3, 2, dtype=torch.float64, generator=draw), "s": torch.tensor(0.5).double()}
    ours = {k: v.clone() for k, v in start.items()}
    other = {k: v.clone().requires_grad_() for k, v in start.items()}
    rule, reference = optimizer(Local(lr=0.1, **given)), theirs(list(other.values()))
    state = rule.init(ours)
    for step in range(5):
        grads = {k: torch.randn(v.shape, dtype=v.dtype, generator=draw) for k, v in start.items()}
        rule.step(ours, {k: g.clone() for k, g in grads.items()}, state, 0.1, step)
        for k, g in grads.items():
            other[k].grad = g
        reference.step()
    for k in start:
        torch.testing.assert_close(ours[k], other[k].detach(), atol=1e-12, rtol=0)


def test_a_gradient_of_norm_five_is_clipped_to_one() -> None:
    """(3, 4) has norm 5 and becomes (0.6, 0.8); the norm is that of all tensors together."""
    assert clip({"w": torch.tensor([3.0, 4.0])}, 1.0)["w"].tolist() == pytest.approx([0.6, 0.8])
    both = clip({"a": torch.tensor([3.0]), "b": torch.tensor([4.0])}, 1.0)
    assert [float(both["a"]), float(both["b"])] == pytest.approx([0.6, 0.8])


def test_clipping_does_not_depend_on_torchs_default_type() -> None:
    """A norm of float32 gradients is taken in float32, in whichever process: the same run has the same bits."""
    grads = {"a": torch.linspace(0.1, 2.3, 40), "b": torch.linspace(-1.7, 0.9, 7)}
    plain = clip(grads, 0.7)
    torch.set_default_dtype(torch.float64)
    try:
        found = clip(grads, 0.7)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(found[k], plain[k]) for k in grads)


def test_a_small_gradient_and_a_zero_one_are_left_alone() -> None:
    assert clip({"w": torch.tensor([0.3, 0.4])}, 1.0)["w"].tolist() == pytest.approx([0.3, 0.4])
    assert clip({"w": torch.zeros(2)}, 1.0)["w"].tolist() == [0, 0]


def test_an_unknown_optimiser_is_refused() -> None:
    with pytest.raises(InputError, match="optimizer must be sgd or adam, not 'lion'"):
        optimizer(Local(optimizer="lion"))

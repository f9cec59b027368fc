"""What is the same in every step is computed once, and only where nobody can see the difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from unskew.engines.constants import compute_once, make_constants_once
from unskew.engines.traced import trace

HELD = torch.ones(3)


def operations(step: Callable[[Tensor], Any]) -> tuple[Callable[..., Any], list[str]]:
    """A function of three numbers to replay, and what it still does at every call."""
    traced = trace(step, [torch.ones(3)])
    compute_once(traced.graph)
    make_constants_once(traced)
    play = traced.compiled()
    nodes = traced.graph.nodes
    return play, [
        node.target._schema.name.removeprefix("aten::") for node in nodes if node.op == "call_function"
    ]


def mean(x: Tensor) -> Tensor:
    """Of numbers that weigh 1 each."""
    weight = torch.ones(3)
    return (x * weight).sum() / weight.sum().clamp_min(1.0)


def test_a_mean_of_equal_weights_is_a_sum_and_a_division() -> None:
    """(1 + 2 + 6) / 3 = 3: products by 1 and the sum of the weights are not computed again."""
    play, left = operations(mean)
    assert left == ["sum", "div"]
    assert float(play(torch.tensor([1.0, 2.0, 6.0]))) == 3.0


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda x: torch.zeros(3).add_(x), [1.0, 1.0, 1.0]),
        (lambda x: torch.zeros_like(x), [0.0, 0.0, 0.0]),
        (lambda x: torch.zeros(3).view(3), [0.0, 0.0, 0.0]),
        (lambda x: x * torch.ones(3), [1.0, 1.0, 1.0]),
    ],
    ids=["written to", "a result", "shown by a result", "an argument as a result"],
)
def test_what_others_may_write_to_is_made_anew(
    step: Callable[[Tensor], Tensor], expected: list[float]
) -> None:
    """The result of one call is overwritten, and the next has the same numbers, as has its argument."""
    play, _ = operations(step)
    given = torch.ones(3)
    for _ in range(2):
        found = play(given)
        assert found.tolist() == expected
        found.fill_(7.0)
    assert given.tolist() == [1.0] * 3


def test_a_tensor_from_elsewhere_is_read_at_every_call() -> None:
    """What a model holds may change after its step was recorded: x + 2 held is 3, then 7."""
    play, _ = operations(lambda x: x + HELD * 2)
    assert play(torch.ones(3)).tolist() == [3.0] * 3
    HELD.fill_(3.0)
    try:
        assert play(torch.ones(3)).tolist() == [7.0] * 3
    finally:
        HELD.fill_(1.0)


def test_what_is_computed_twice_is_computed_once() -> None:
    """x < 2 is asked twice of the same numbers."""
    play, left = operations(lambda x: torch.where(x < 2, x, 0.0) + torch.where(x < 2, 0.5, x))
    assert left.count("lt") == 1
    assert play(torch.tensor([1.0, 2.0, 3.0])).tolist() == [1.5, 2.0, 3.0]


def test_what_changes_in_between_or_is_drawn_is_computed_twice() -> None:
    """exp of 0, and of 0 + 1; and two draws are two draws."""
    play, left = operations(lambda x: x.exp() + x.add_(1).exp())
    assert left.count("exp") == 2
    torch.testing.assert_close(play(torch.zeros(3)), torch.full((3,), 1 + torch.e))
    _, drawn = operations(lambda x: torch.bernoulli(x, 0.5) + torch.bernoulli(x, 0.5))
    assert len([name for name in drawn if "bernoulli" in name]) == 2

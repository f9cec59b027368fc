"""A function of one client's tensors over stacked clients: what it gives for each alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from unskew.core.over_clients import over_clients


def one(weights: dict[str, Any], x: Tensor, shared: dict[str, Tensor]) -> dict[str, Tensor]:
    """k (w x + b), and the weights' sum; ``b`` lies a level deeper."""
    line = weights["w"] * x + weights["more"]["b"]
    return {"line": shared["k"] * line, "sum": weights["w"] + weights["more"]["b"]}


def test_every_client_has_rows_of_its_own_and_all_have_what_they_share() -> None:
    """Clients with w = 1, 2, b = 3, 4 and x = 5, 6: lines 8 and 16, by k = 10; trees in trees keep their names."""
    weights = {"w": torch.tensor([1.0, 2.0]), "more": {"b": torch.tensor([3.0, 4.0])}}
    found = over_clients(one, (True, True, False))(
        weights, torch.tensor([5.0, 6.0]), {"k": torch.tensor(10.0)}
    )
    assert found["line"].tolist() == [80.0, 160.0]
    assert found["sum"].tolist() == [4.0, 6.0]


def test_what_is_shared_may_be_stacked_instead() -> None:
    """By k = 10 and 100: the same function, told that this argument has rows, too."""
    weights = {"w": torch.tensor([1.0, 2.0]), "more": {"b": torch.tensor([3.0, 4.0])}}
    stacked = over_clients(one, (True, True, True))
    found = stacked(weights, torch.tensor([5.0, 6.0]), {"k": torch.tensor([10.0, 100.0])})
    assert found["line"].tolist() == [80.0, 1600.0]


def test_empty_trees_and_nothing_pass() -> None:
    """A part without memory has an empty tree; a step without dropout has no seed."""

    def adds(tree: dict[str, Tensor], x: Tensor, seed: Tensor | None) -> Tensor:
        assert tree == {}
        assert seed is None
        return x + 1

    found = over_clients(adds, (True, True, False))({}, torch.tensor([1.0, 2.0]), None)
    assert found.tolist() == [2.0, 3.0]


def test_gradients_go_through_to_the_rows() -> None:
    """Of k w x: 10 x for each client."""
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    line = over_clients(lambda w, x, k: k * w * x, (True, True, False))
    line(w, torch.tensor([5.0, 6.0]), torch.tensor(10.0)).sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [50.0, 60.0]


def test_as_many_flags_as_arguments() -> None:
    with pytest.raises(ValueError, match="zip"):
        over_clients(one, (True, True))({}, torch.zeros(2), {})

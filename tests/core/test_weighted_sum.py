"""The sum that a rule takes over clients: in float64, in blocks of eight, some columns at a time."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
import torch

from unskew.core import faults, types
from unskew.core.faults import finite
from unskew.core.types import CLIENTS_AT_ONCE, Update, expand, moved_by, weighted_sum
from unskew.core.visits import change_norms


def test_weighted_differences_worked_out_by_hand() -> None:
    """0.25 x (3 - 1) + 0.75 x (7 - 1) = 5 for the weight, 0.25 x (2 - 4) + 0.75 x (8 - 4) = 2.5 for a number alone."""
    tree = {"w": torch.tensor([[3.0], [7.0]]), "one": torch.tensor([2.0, 8.0])}
    base = expand({"w": torch.tensor([1.0]), "one": torch.tensor(4.0)}, 2)
    found = weighted_sum(tree, torch.tensor([0.25, 0.75]), base)
    assert {k: (v.tolist(), v.dtype) for k, v in found.items()} == {
        "w": ([5.0], torch.float64),
        "one": (2.5, torch.float64),
    }


@pytest.mark.parametrize("clients", [1, CLIENTS_AT_ONCE, CLIENTS_AT_ONCE + 1, 3 * CLIENTS_AT_ONCE])
def test_how_many_columns_are_summed_at_a_time_changes_no_bit(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, and 64 at a time, the last of them fewer; with starts of their own and with one for all."""
    drawn = torch.Generator().manual_seed(0)
    value, weights = torch.randn(clients, 5, 50, generator=drawn), torch.rand(clients, generator=drawn)
    shared = torch.randn(5, 50, generator=drawn).expand(clients, 5, 50)
    for base in (None, {"w": shared}, {"w": shared.clone()}):
        whole = weighted_sum({"w": value}, weights, base)["w"]
        with monkeypatch.context() as patched:
            patched.setattr(types, "COLUMNS", 64)
            assert torch.equal(weighted_sum({"w": value}, weights, base)["w"], whole)
        exact = value.double() - (0 if base is None else base["w"].double())
        assert torch.allclose(whole, (weights.double()[:, None, None] * exact).sum(0), atol=1e-14)


def test_what_was_summed_stays_as_it_was() -> None:
    """Also where it is float64 already and need not be converted."""
    value = torch.ones(2, 3, dtype=torch.float64)
    weighted_sum({"w": value}, torch.tensor([0.5, 0.5]), {"w": torch.ones(2, 3, dtype=torch.float64)})
    assert value.tolist() == [[1.0] * 3] * 2


def test_empty_tensors_and_no_clients() -> None:
    """A tensor without numbers has a sum without numbers; of nobody there is no sum."""
    assert weighted_sum({"none": torch.zeros(2, 0)}, torch.ones(2))["none"].shape == (0,)
    assert weighted_sum({"w": torch.zeros(0, 3)}, torch.zeros(0)) == {}


def test_tensors_joined_for_a_gpu_have_the_sums_that_each_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbours of one type, until they are large; whole numbers keep all their digits."""
    large = torch.tensor([[2**24 + 1], [0], [0]])
    tree = {"a": torch.randn(3, 2), "b": torch.randn(3, 4, 2), "none": torch.zeros(3, 0), "count": large}
    tree |= {"c": torch.randn(3), "d": torch.randn(3, 9), "same": torch.randn(1, 5).expand(3, 5)}
    base = {k: torch.ones_like(v[0]).expand_as(v) for k, v in tree.items()}
    weights = torch.tensor([0.5, 0.25, 0.25])
    for minus in (None, base):
        expected = weighted_sum(tree, weights, minus)
        with monkeypatch.context() as patched:
            patched.setattr(types, "most_joined", lambda _: 30)
            assert types.side_by_side(tree) == [["a", "b", "none"], ["count"], ["c", "d"], ["same"]]
            found = weighted_sum(tree, weights, minus)
        assert list(found) == list(expected)
        for name in tree:
            torch.testing.assert_close(found[name], expected[name], rtol=1e-15, atol=1e-15)


def test_norms_and_finiteness_are_the_same_of_tensors_joined_for_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each client's own, where all begin with one model and where each has its own."""
    tree = {"w": torch.randn(3, 4, 2), "b": torch.randn(3, 5), "one": torch.randn(3)}
    tree["b"][1, 2] = torch.inf
    one = {k: torch.randn(v.shape[1:]) for k, v in tree.items()}
    for base in (expand(one, 3), {k: torch.randn_like(v) for k, v in tree.items()}):
        none: dict[str, Any] = {n: {} for n in types.TREES} | {n: torch.zeros(3) for n in types.VECTORS}
        update = Update(np.arange(3), np.arange(3), **(none | {"params": tree, "base": base}))
        apart, sound = change_norms(update), finite(update).tolist()
        assert sound == [True, False, True]
        with monkeypatch.context() as patched:
            patched.setattr(types, "most_joined", lambda _: 1000)
            assert change_norms(update) == pytest.approx(apart, rel=1e-12)
            assert finite(update).tolist() == sound


def test_of_tensors_joined_for_a_gpu_one_copy_is_there_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU that holds a cohort's models need not hold them once more to see whether they are finite: nor where a sum
    of large numbers is infinite by itself, and is looked at again."""
    tree = {name: torch.randn(3, 2) for name in "abcdef"}
    tree["e"][2] = 3e38
    tree["d"][1, 1] = torch.nan
    copies: list[weakref.ref[torch.Tensor]] = []
    most = 0

    def copied(*group: Any) -> torch.Tensor:
        nonlocal most
        copies.append(weakref.ref(table := types.as_table(*group)))
        most = max(most, sum(copy() is not None for copy in copies))
        return table

    monkeypatch.setattr(types, "most_joined", lambda _: 12)
    monkeypatch.setattr(faults, "as_table", copied)
    assert faults.finite_rows([tree], 3).tolist() == [True, False, True]
    assert (len(copies), most) == (5, 1)


def test_the_next_model_is_rounded_once_in_its_own_type() -> None:
    """1 + 2^-24 is 1 in float32, and adding 2^-24 to that once more too: the sum is taken in float64."""
    step = torch.tensor([2**-24, 2**-23], dtype=torch.float64)
    found = moved_by({"w": torch.ones(2), "n": torch.tensor([3])}, {"w": step, "n": torch.tensor([1.9])})
    assert found["w"].tolist() == [1.0, 1 + 2**-23]
    assert (found["n"].tolist(), found["n"].dtype) == ([4], torch.int64)
    assert moved_by({}, {}) == {}

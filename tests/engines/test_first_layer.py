"""A first layer that is multiplied once a visit: the loop's numbers, and only where nothing else uses its weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unskew.core.client import Pool
from unskew.core.method import Method
from unskew.data import Federation
from unskew.engines import first_layer
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.first_layer import FirstLayers
from unskew.testing.toy_federation import play, tiny

DENSE = {"model": "mlp(hidden=[40])", "rounds": 2, "batch": 3, "epochs": 6.0}


def lifted_by(
    method: str, federation: Federation | None = None, **settings: object
) -> tuple[set[tuple[str, ...]], float]:
    """The layers that recorded steps lifted, and how far the run ended from the loop's."""
    federation = federation or tiny(sizes=(6, 6, 6, 6))
    engine = FastCPU(workers=1, record=True)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    found = play(Method.parse(method), federation, engine=engine, **(DENSE | settings)).state.params
    layers = {recording.lifted for recording in engine.recordings.values()}
    close()
    expected = play(Method.parse(method), federation, **(DENSE | settings)).state.params
    return layers, max(float((found[k] - v).abs().max()) for k, v in expected.items())


@pytest.mark.parametrize("method", ["fedavg", "sem", "fedlc", "oversample"])
def test_layers_on_samples_are_lifted_and_agree_with_the_loop(method: str) -> None:
    layers, apart = lifted_by(method)
    assert layers == {("dense1.1.weight",)}
    assert apart < 1e-9


def test_clients_of_unequal_sizes_end_one_by_one() -> None:
    """Short batches are padded, and the first clients go on when others have finished."""
    layers, apart = lifted_by("fedavg", tiny(sizes=(2, 5, 7, 11)), batch=4)
    assert ("dense1.1.weight",) in layers
    assert apart < 1e-9


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("fedprox(mu=0.1)", {}),
        ("scaffold", {}),
        ("fedmix(group=2)", {}),
        ("fedavg", {"momentum": 0.9}),
        ("fedavg", {"weight_decay": 0.01}),
        ("fedavg", {"clip": 0.1}),
        ("fedavg", {"optimizer": "adam", "lr": 0.001}),
    ],
    ids=str,
)
def test_weights_that_are_used_otherwise_stay_as_they_are(method: str, settings: dict[str, object]) -> None:
    layers, apart = lifted_by(method, **settings)
    assert layers == {()}
    assert apart < 1e-9


def test_one_pass_over_the_samples_is_not_worth_it() -> None:
    assert lifted_by("fedavg", epochs=1.0)[0] == {()}


def test_what_would_take_too_much_memory_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_layer, "LARGEST", 1000)
    layers, apart = lifted_by("fedavg")
    assert layers == {()}
    assert apart < 1e-9


def test_weights_move_when_the_layers_that_are_lifted_change() -> None:
    """A step that lifts nothing finds the weights where the steps before it would have moved them."""
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
    zero, one = torch.zeros(1, dtype=torch.float64), torch.ones(1, dtype=torch.float64)
    pool = Pool(x, torch.zeros(2, dtype=torch.int64), zero, one)
    first = FirstLayers(torch.tensor([[0, 1]]), torch.zeros(1, 1, 1, dtype=torch.int64))
    params = {"w": torch.zeros(1, 1, 2, dtype=torch.float64)}
    _, products, outputs, moves = first.first_rows(1, ("w",), params, pool)
    np.testing.assert_array_equal(products, [[5, 13], [13, 34]])
    np.testing.assert_array_equal(outputs, [[0], [0]])
    moves[0, 1, 0] = 0.1
    assert first.first_rows(1, (), params, pool) == []
    np.testing.assert_allclose(params["w"], [[[-0.3, -0.5]]])
    first.end(params)
    np.testing.assert_allclose(params["w"], [[[-0.3, -0.5]]])

"""Recorded steps: replayed, they are the steps that were recorded, for every objective there is."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unskew.data import Federation
from unskew.engines.fast import FastCPU
from unskew.engines.recorded import KEPT
from unskew.method import PARTS, Method
from unskew.parts import Objective
from unskew.tiny import play, tiny

OBJECTIVES = sorted(name for name, part in PARTS.items() if issubclass(part, Objective))


def equal_clients() -> Federation:
    """Four clients of six samples: one shape, so that each test records few steps."""
    whole = tiny()
    return Federation(whole.dataset, np.arange(24) % len(whole.dataset.y), np.arange(5) * 6)


def apart(method: str, **settings: object) -> float:
    engine = FastCPU(workers=1, record=True)
    dense = {"model": "mlp(hidden=[5])", "rounds": 2, "batch": 3} | settings
    expected = play(Method.parse(method), equal_clients(), **dense)
    found = play(Method.parse(method), equal_clients(), engine=engine, **dense)
    pairs = ((expected.state.params[k], v) for k, v in found.state.params.items())
    return max(float((a - b).abs().max()) for a, b in pairs)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_agrees_with_the_loop(name: str) -> None:
    """To 1e-9 in float64 after two rounds of the example each part gives of itself."""
    assert apart(PARTS[name].example or name) < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam", "lr": 0.001},
        {"momentum": 0.9, "weight_decay": 0.01},
        {"clip": 0.1},
        {"batch": 4},
    ],
    ids=str,
)
def test_every_optimiser_and_a_short_batch_agree(settings: dict[str, object]) -> None:
    """Where the gradient does more than move the weight, it is not added to the weight as it is computed."""
    assert apart("fedavg", **settings) < 1e-9


def test_a_decaying_rate_needs_no_new_recording() -> None:
    """Rates are tensors of the step: three rounds of three rates are one recording."""
    engine = FastCPU(workers=1, record=True)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    dense = {"model": "mlp(hidden=[5])", "rounds": 3, "batch": 3, "decay": "exponential(0.5)"}
    play(Method.parse("fedavg"), equal_clients(), engine=engine, **dense)
    site = engine.inline["made of samples"][1]
    assert len(site.recordings) == 1 < KEPT
    close()


def test_gradients_are_added_to_the_weights_without_being_kept() -> None:
    """For plain SGD the recording holds a product that adds in place for each layer's weights."""
    engine = FastCPU(workers=1, record=True)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    play(Method.parse("fedavg"), equal_clients(), engine=engine, model="mlp(hidden=[5])", rounds=1, batch=3)
    (recording,) = engine.inline["made of samples"][1].recordings.values()
    operations = [node.target for node in recording.__self__.graph.nodes]
    assert operations.count(torch.ops.aten.baddbmm_.default) == 2
    close()

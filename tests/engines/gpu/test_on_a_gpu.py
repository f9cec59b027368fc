"""The fast engine on a real CUDA device: the loop's numbers, the same bits twice, graphs that are replayed.

These are the few that matter most; ``python -m benchmarks.gpu agree`` compares every model and more methods.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from unskew.core.method import Method
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.gpu.grouping import Way
from unskew.testing.toy_federation import Played, normed, play

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device, and there is none here"),
]


def wide(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A model whose filters have kernels for all clients in bf16: batch norm, pooling and dropout, too."""
    return nn.Sequential(
        nn.Conv2d(shape[0], 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(32 * (shape[1] // 2) * (shape[2] // 2), classes),
    )


METHODS = [
    "fedavg",
    "scaffold+sem",
    "fedprox(mu=0.1)+phase_shift(2)",
    "flea(dense1, share=0.5)",
    "fedaug(0.4)",
]


def apart(one: Played, other: Played) -> float:
    """The largest difference of two models, wherever they lie."""
    pairs = ((v.cpu(), other.state.params[k].cpu()) for k, v in one.state.params.items())
    return max(float((a - b).abs().max()) for a, b in pairs)


def on_the_gpu(method: str, *, stack: bool | None = None, capture: bool = True, **settings: Any) -> Played:
    return play(Method.parse(method), engine=FastGPU("cuda", stack=stack, capture=capture), **settings)


@pytest.mark.parametrize("method", METHODS)
def test_it_agrees_with_the_loop_in_float64(method: str) -> None:
    """To 1e-9 after three rounds, with graphs."""
    assert apart(play(Method.parse(method)), on_the_gpu(method)) < 1e-9


@pytest.mark.parametrize("stack", [True, False])
def test_stacked_and_side_by_side_agree_with_batch_norm(stack: bool) -> None:
    """A convolving model with batch norm and dropout."""
    expected = play(Method.parse("fedavg"), model=normed)
    assert apart(expected, on_the_gpu("fedavg", stack=stack, model=normed)) < 1e-9


@pytest.mark.parametrize("stack", [True, False])
def test_replayed_graphs_are_the_steps_they_were_captured_from(stack: bool) -> None:
    """With graphs and without them, over rounds of other clients, in float32: the same to its rounding."""
    given = {"model": normed, "precision": "fp32", "rounds": 4, "stack": stack}
    replayed, eager = (on_the_gpu("fedavg", capture=capture, **given) for capture in (True, False))
    assert apart(replayed, eager) < 1e-5


def test_a_run_repeats_to_the_bit() -> None:
    """Two engines, one result, in float32."""
    one, two = (on_the_gpu("scaffold", precision="fp32", model=normed).hash for _ in range(2))
    assert one == two


@pytest.mark.parametrize(
    "method",
    [
        "fedavg",
        "scaffold+sem",
        "fedntd",
        "moon",
        "fedprox(mu=0.1)+phase_shift(2)",
        "fedmix",
        "flea(last, share=0.5)",
    ],
)
def test_kernels_for_all_clients_have_the_numbers_of_the_loop(method: str) -> None:
    """In float32, where both round alike: after two rounds 1e-5 apart."""
    given: dict[str, Any] = {"model": wide, "precision": "fp32", "rounds": 2}
    engine = FastGPU("cuda", kernels=True)
    found = play(Method.parse(method), engine=engine, **given)
    assert {room.way for room in engine.rooms} == {Way.KERNELS}
    assert apart(play(Method.parse(method), **given), found) < 1e-5


def test_kernels_for_all_clients_are_the_default_in_bf16_and_repeat_to_the_bit() -> None:
    """Filters' gradients are computed on a stream beside the rest: nobody reads them before they are there."""
    found = []
    for _ in range(3):
        engine = FastGPU("cuda", precision="bf16")
        found.append(play(Method.parse("fedavg"), engine=engine, model=wide, precision="fp32", rounds=4).hash)
        assert {room.way for room in engine.rooms} == {Way.KERNELS}
    assert len(set(found)) == 1

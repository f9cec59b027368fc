"""The recorded steps of clients that are not stacked: replayed, they are the steps that were recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from unskew.bench.jobs import JOBS
from unskew.bench.options import Options
from unskew.bench.ours import Ours
from unskew.core.method import Method
from unskew.core.slots import Objective, Step
from unskew.core.types import Tree
from unskew.data import Federation
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.graph import aten, calls
from unskew.engines.recorded_alone import common_sizes
from unskew.engines.rewrite_alone import rewrite_alone
from unskew.engines.traced import trace
from unskew.parts import PARTS
from unskew.testing.toy_federation import normed, play, tiny

OBJECTIVES = sorted(name for name, part in PARTS.items() if issubclass(part, Objective))


def seven_each() -> Federation:
    """Four clients of seven samples: in batches of four, one is whole and one of three."""
    whole = tiny()
    return Federation(whole.dataset, np.arange(28) % len(whole.dataset.y), np.arange(5) * 7)


def recordings(engine: FastCPU) -> list[Any]:
    """The steps of clients alone that were recorded in this process; None for those that could not be."""
    known = engine.crew.setup["made of samples"][1].recordings_alone  # type: ignore[union-attr]
    return [play for sizes in known.values() for play in sizes.values()]


def apart(method: str | Method, recorded: int = 2, **settings: object) -> float:
    """How far this engine's weights are from the loop's after two rounds, by this many recordings."""
    engine = FastCPU(workers=1, block=1, record=True)
    close, engine.close = engine.close, lambda: None  # type: ignore[method-assign]
    convolving = {"model": "small_cnn", "rounds": 2, "batch": 4} | settings
    how = Method.parse(method) if isinstance(method, str) else method
    expected = play(how, seven_each(), **convolving).state.params
    found = play(how, seven_each(), engine=engine, **convolving).state.params
    assert sum(step is not None for step in recordings(engine)) == recorded
    close()
    return max(float((found[k] - v).abs().max()) for k, v in expected.items())


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_objective_agrees_with_the_loop(name: str) -> None:
    """To 1e-9 in float64 after two rounds of each part's own example, whole batches and short ones."""
    engine = FastCPU(workers=1, block=1, record=True)
    method = Method.parse(PARTS[name].example or name)
    settings = {"model": "small_cnn", "rounds": 2, "batch": 4}
    expected = play(method, seven_each(), **settings).state.params
    found = play(method, seven_each(), engine=engine, **settings).state.params
    assert max(float((found[k] - v).abs().max()) for k, v in expected.items()) < 1e-9


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adam", "lr": 0.001},
        {"momentum": 0.9, "weight_decay": 0.01},
        {"clip": 0.1},
        {"decay": "exponential(0.5)"},
        {"model": "thesis_fashion"},
        {"model": normed},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_optimisers_rates_and_layers_agree(settings: dict[str, object]) -> None:
    """To 1e-9 in float64, one recording for each of two sizes: rates need none of their own."""
    assert apart("fedavg", **settings) < 1e-9


class Looking(nn.Module):
    """A model that goes another way by what its numbers are."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 2, 3), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = self.conv(x)
        return self.out((found if found.mean() > 0 else found.abs()).flatten(1))  # type: ignore[no-any-return]


class Factors(nn.Module):
    """A dense layer whose weight is a product: each factor's gradient is made of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3)
        self.left = nn.Parameter(torch.ones(5, 2))
        self.right = nn.Parameter(torch.linspace(-1, 1, 64).view(2, 32))
        self.out = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.out(torch.tanh(self.conv(x).flatten(1) @ (self.left @ self.right).T))
        return found


class Reused(nn.Module):
    """What ReLU is given is read again, through a view and as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv2d(1, 2, 3), nn.Linear(32, 3)

    def forward(self, x: Tensor) -> Tensor:
        found = self.conv(x)
        shown = found.flatten(1)
        found = torch.relu(found) * torch.relu(found + 1)
        return self.out(found.flatten(1) + shown)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "recorded"),
    [(Looking(), 0), (Factors(), 2), (Reused(), 2)],
    ids=["Looking", "Factors", "Reused"],
)
def test_models_of_ones_own_agree(model: nn.Module, recorded: int) -> None:
    """Weights made of weights, numbers read twice; a step that looks at numbers is played as it is written."""
    assert apart("fedavg", recorded, model=model) < 1e-9


@dataclass(frozen=True)
class OfWeights(Objective):
    """Directions made of the weights themselves."""

    name: ClassVar[str] = "of_weights"

    def correct(self, grads: Tree, step: Step) -> Tree:
        return {k: 0.5 * p @ p.T @ p if p.dim() == 2 else grads[k] for k, p in step.params.items()}


def test_a_direction_made_of_weights_agrees() -> None:
    """w <- w - r w w' w: a product that reads the weights is computed before they move."""
    method = replace(Method.parse("fedavg"), objective=(OfWeights(),))
    assert apart(method, lr=0.01) < 1e-9


@dataclass(frozen=True)
class Kinds(Objective):
    """As many times a penalty as the batch has classes."""

    name: ClassVar[str] = "kinds"

    def penalty(self, step: Step) -> Tensor:
        return 0.1 * len(torch.unique(step.batch.y)) * step.out.logits.square().mean()


@dataclass(frozen=True)
class Masked(Objective):
    """A penalty on the samples of some classes."""

    name: ClassVar[str] = "masked"

    def penalty(self, step: Step) -> Tensor:
        some = step.out.logits[step.batch.y > 0]
        return some.square().sum() / max(1, len(some))


@pytest.mark.parametrize("part", [Kinds(), Masked()], ids=lambda part: part.name)
def test_what_has_other_shapes_in_other_batches_is_not_recorded(part: Objective) -> None:
    """The first batch's number of classes, or of rows behind a mask, is not every batch's."""
    assert apart(replace(Method.parse("fedavg"), objective=(part,)), recorded=0) < 1e-9


def test_two_workers_replay_to_the_same_bits() -> None:
    """Whoever records a step first: whole batches of four, and two samples left over."""
    job = replace(JOBS["A"], samples=10, clients=12, cohort=5, epochs=2, batch=4, shape=(3, 8, 8))
    found = []
    for workers in (1, 2):
        ours = Ours.ready("fast", job, Options(jobs=[job], workers=workers))
        assert "one client at a time" in ours.about
        ours.round()
        found.append(ours.state.params)
        ours.close()
    assert all(torch.equal(found[0][k], found[1][k]) for k in found[0])


def test_objectives_agree_where_batch_norm_is() -> None:
    """Statistics that a step moves, beside a part that passes over the model twice."""
    for name in ("scaffold", "moon", "fedntd", "flea(last)"):
        assert apart(name, model=normed) < 1e-9


def test_whole_batches_and_common_short_ones_are_recorded() -> None:
    """Of eight clients two leave 3 of a batch of 8, one leaves 5, one 1 and four nothing."""
    assert common_sizes(np.array([11, 19, 5, 1, 8, 8, 16, 24]), 8) == {8, 3}
    assert common_sizes(np.array([100] * 10), 32) == {32, 4}


def test_the_rewritten_step_of_a_convolving_model() -> None:
    """Biases are summed apart, ReLU works where its numbers lie, and a dense gradient is added to its weight."""
    conv, dense = nn.Conv2d(3, 4, 3), nn.Linear(4 * 4 * 4, 5)

    def step(*given: Tensor) -> list[Tensor]:
        *weights, x, _ = given
        weights = [w.detach().requires_grad_() for w in weights]
        h = torch.relu(torch.conv2d(x, weights[0], weights[1]))
        out = torch.addmm(weights[3], h.flatten(1), weights[2].t())
        return list(torch.autograd.grad(out.square().sum(), weights))

    x = torch.randn(2, 3, 6, 6).contiguous(memory_format=torch.channels_last)
    values = [p.detach() for p in (*conv.parameters(), *dense.parameters())] + [x]
    traced = trace(step, [*values, torch.zeros(())])
    wanted, before = step(*values, torch.zeros(())), dense.weight.detach().clone()
    found = rewrite_alone(traced, 4)(*values, torch.tensor(-0.5))
    (backward,) = calls(traced.graph, aten.convolution_backward.default)
    assert backward.args[10] == [False, True, False]
    assert not calls(traced.graph, aten.relu.default, aten.threshold_backward.default)
    assert [result is None for result in found] == [False, False, True, False]
    found[2] = (before - dense.weight.detach()) / 0.5
    for result, gradient in zip(found, wanted, strict=True):
        torch.testing.assert_close(result, gradient, rtol=1e-4, atol=1e-4)

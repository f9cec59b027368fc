"""The step of local training: worked by hand, and the same for one client, for rows of one, and as a whole leg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from by_hand import numbers
from unskew.core.net import Net
from unskew.core.slots import Local, Objective, Step
from unskew.core.step import LocalStep, LocalTraining, StepInputs
from unskew.core.types import Tree
from unskew.models import build

NOTHING: dict[str, Tree] = {"marked": {}}


@dataclass(frozen=True)
class Marked(Objective):
    """Adds 5 to the loss, and doubles the gradient."""

    name: ClassVar[str] = "marked"

    def penalty(self, step: Step) -> Tensor | float:
        return 5.0

    def correct(self, grads: Tree, step: Step) -> Tree:
        return {k: 2 * g for k, g in grads.items()}


def training(*parts: Objective, **local) -> LocalTraining:
    """A dense layer of one input and two classes, all weights 0."""
    net = Net(build(nn.Linear(1, 2, bias=False), (1,), 2, dtype=torch.float64))
    net.initial = {k: torch.zeros_like(v) for k, v in net.initial.items()}
    return LocalTraining(net, parts, Local(**local), 0)


def inputs(x: float = 1.0, y: int = 0) -> StepInputs:
    """One sample, and one row of padding."""
    batch = numbers(x, 9.0)[:, None], torch.tensor([y, 1]), numbers(1.0, 0.0)
    return StepInputs({}, *batch, {}, torch.ones(2), NOTHING, NOTHING, NOTHING)


def weights(found: LocalTraining) -> Tree:
    return {k: v.clone().requires_grad_() for k, v in found.net.initial.items()}


def taken(found: LocalTraining, rate: float | Tensor = 0.5) -> tuple[list[float], float]:
    """Where one step leads, and the loss that was added to 10."""
    params, step, losses = weights(found), LocalStep(found), numbers(10.0)[0]
    step(params, inputs(), {}, rate, 0, losses)
    (w,) = params.values()
    return w.detach().flatten().tolist(), float(losses)


def test_by_hand():
    """Logits 0: the loss is ln 2 and the gradient (p - y) x = (-1/2, 1/2), so a rate of 1/2 moves w by (1/4, -1/4)."""
    assert taken(training()) == (pytest.approx([0.25, -0.25]), pytest.approx(10.693147))
    assert taken(training(), torch.tensor(0.5)) == (pytest.approx([0.25, -0.25]), pytest.approx(10.693147))


def test_parts_correct_the_gradient_and_it_is_clipped_last():
    """Doubled it is (-1, 1) with norm sqrt 2; clipped to 1, (-1, 1) / sqrt 2."""
    assert taken(training(Marked())) == (pytest.approx([0.5, -0.5]), pytest.approx(15.693147))
    clipped, _ = taken(training(Marked(), clip=1.0))
    assert clipped == pytest.approx([0.5 / 2**0.5, -0.5 / 2**0.5])


@pytest.mark.parametrize("parts", [(), (Marked(),)])
def test_rows_of_one_are_clients_alone(parts):
    """Two stacked clients move as each alone; one whose batch is all padding only waits, and its loss is not counted.

    One with the rate 0 and samples stays as it is, and has a loss all the same.
    """
    found = training(*parts)
    alone = []
    for given in (inputs(1.0, 0), inputs(2.0, 1)):
        params, losses = weights(found), numbers(0.0)[0]
        LocalStep(found)(params, given, {}, 0.5, 0, losses)
        alone.append((next(iter(params.values())).detach(), losses))
    rows = [*zip(inputs(1.0, 0), inputs(2.0, 1), inputs(3.0, 0), inputs(2.0, 1), strict=True)]
    x, y, weight = (torch.stack(row) for row in rows[1:4])
    weight[2] = 0
    many = StepInputs({}, x, y, weight, {}, torch.ones(4, 2), NOTHING, NOTHING, NOTHING)
    params = {k: v.detach().expand(4, *v.shape).clone().requires_grad_() for k, v in weights(found).items()}
    losses = torch.zeros(4, dtype=torch.float64)
    step = LocalStep(found, alike={"anchor", "shared", "seed"})
    step(params, many, {}, numbers(0.5, 0.5, 0.0, 0.0), 0, losses, padded=True)
    (w,) = params.values()
    for k, (wanted, value) in enumerate(alone):
        assert torch.allclose(w[k], wanted, atol=1e-12)
        assert float(losses[k]) == pytest.approx(float(value))
    assert not w[2:].any()
    assert float(losses[2]) == 0
    assert float(losses[3]) == pytest.approx(float(alone[1][1]))

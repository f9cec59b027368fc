"""When filters' gradients may be computed beside a backward pass: where nobody looks at one before its end."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.slots import Local, Objective, Step
from unskew.core.step import LocalTraining
from unskew.engines.stacked import _one_pass
from unskew.models import Stages, build

SHAPE = (3, 8, 8)


class Weighs(Objective):
    """Counts classes by a filter's size."""

    def class_weights(self, step: Step) -> Tensor:
        return torch.ones(10) * step.params["first.weight"].square().sum()


class Twice(nn.Conv2d):
    """Two passes of one filter."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(super().forward(x))


def staged(first: nn.Module) -> Stages:
    return Stages({"first": first, "flat": nn.Flatten(), "out": nn.Linear(3 * 8 * 8, 10)})


def one_pass(model: object, *parts: Objective) -> bool:
    net = Net(build(model, SHAPE, 10, 0)).with_kernels()  # type: ignore[arg-type]
    return _one_pass(LocalTraining(net, parts, Local(), 0))


@pytest.mark.parametrize("model", ["resnet9", "small_cnn", staged(nn.Conv2d(3, 3, 3, padding=1))])
def test_a_librarys_model_uses_each_weight_once(model: object) -> None:
    assert one_pass(model)
    assert one_pass(model, *Method.parse("scaffold").objective)


def test_what_may_use_a_weight_twice_waits_for_its_gradient() -> None:
    """Two gradients of a filter are added as soon as both are there, on another stream."""
    conv = nn.Conv2d(3, 3, 3, padding=1)
    assert not one_pass(staged(nn.Sequential(conv, conv)))
    assert not one_pass(staged(Twice(3, 3, 3, padding=1)))
    assert not one_pass("resnet9", Weighs())
    assert not one_pass("resnet9", *Method.parse("fedprox(mu=0.1)").objective)

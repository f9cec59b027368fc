"""What objectives are handed beside a batch: the global model whole, heads of their own, one more pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.slots import Objective, Step
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.loop import Loop
from unskew.models import build
from unskew.testing.toy_federation import apart, normed, play


@dataclass(frozen=True)
class Anchored(Objective):
    """Pushes every weight by the sum of the anchor's running means."""

    name: ClassVar[str] = "anchored"

    def penalty(self, step: Step) -> Any:
        means = sum(v.sum() for k, v in step.anchor.items() if k.endswith("running_mean"))
        return means * sum(p.sum() for p in step.params.values())


@pytest.mark.parametrize(
    "engine", [Loop(), FastCPU(workers=1, block=3), FastGPU("cpu")], ids=["loop", "cpu", "gpu"]
)
def test_the_anchor_has_the_statistics_of_the_global_model(engine):
    """In round 0 all means are 0, and nothing is pushed; in round 1 they are those that were averaged."""
    method = Method.of(Anchored())
    first, plain = (play(m, model=normed, rounds=1, engine=engine).state.params for m in (method, Method()))
    assert apart(first, plain) < 1e-12
    second, reference = (
        play(method, model=normed, rounds=2, engine=e).state.params for e in (engine, Loop())
    )
    assert apart(second, play(Method(), model=normed, rounds=2).state.params) > 1e-3
    assert apart(second, reference) < 1e-9


def test_one_more_pass_has_masks_and_weights_of_its_own():
    """The same rows give other masks; statistics of the step move in the same buffers."""
    net = Net(build(normed, (1, 6, 6), 3, 0, torch.float64))
    buffers = {k: net.initial[k].clone() for k in net.buffers}
    params = {k: net.initial[k] for k in net.trainable}
    x = torch.linspace(-1, 1, 4 * 36, dtype=torch.float64).reshape(4, 1, 6, 6)
    here = net.bound(buffers, torch.tensor(5), torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    again = here.for_rows(torch.ones(2, dtype=torch.float64))
    assert not torch.equal(here(params, x)[:2], again(params, x[:2]))
    before = {k: v.clone() for k, v in buffers.items()}
    here.for_rows(torch.zeros(2, dtype=torch.float64))(params, x[:2])
    assert all(torch.equal(before[k], v) for k, v in buffers.items())  # rows that do not count move nothing
    again(params, x[:2])
    assert not all(torch.equal(before[k], v) for k, v in buffers.items())


@dataclass(frozen=True)
class Headed(Objective):
    """Trains one weight beside the model, towards 1."""

    name: ClassVar[str] = "headed"

    def extra(self, net: Net, shape: tuple[int, ...], seed: int) -> Any:
        return {"headed:w": torch.zeros(2, dtype=torch.float64)}

    def penalty(self, step: Step) -> Any:
        return (step.params["headed:w"] - 1).square().sum()


def test_a_head_is_trained_and_averaged_and_leaves_the_model_alone():
    """The model is FedAvg's; the head has moved towards 1 at everybody alike; it is not in the finished module."""
    ours, plain = play(Method.of(Headed())).state.params, play(Method()).state.params
    assert all(torch.equal(ours[k], v) for k, v in plain.items())
    assert set(ours) - set(plain) == {"headed:w"}
    assert 0.5 < float(ours["headed:w"][0]) < 1

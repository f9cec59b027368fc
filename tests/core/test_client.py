"""A visit: where a client's samples come from, and what objectives are handed beside a batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch

from unskew.core import client
from unskew.core.client import Pool
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


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["rows", "channels"])
def test_samples_are_taken_in_the_layout_that_they_lie_in(layout):
    """(x - 2) / 4 of the rows asked for, one of them twice, also by places in two axes."""
    x = torch.arange(5 * 2 * 3 * 4, dtype=torch.uint8).view(5, 2, 3, 4).contiguous(memory_format=layout)
    pool = Pool(x, torch.arange(5) * 10, torch.tensor(2.0), torch.tensor(4.0))
    for index in (torch.tensor([3, 0, 3]), torch.tensor([[1, 2], [4, 4]])):
        found, labels = pool.take(index)
        assert torch.equal(found, (x[index].float() - 2) / 4)
        assert torch.equal(labels, index * 10)
    assert pool.take(torch.tensor([3, 0, 3]))[0].is_contiguous(memory_format=layout)


def test_samples_kept_for_a_visit_give_the_same_bits(monkeypatch):
    """Three epochs over samples normalised once are those over samples normalised in each."""
    found = []
    for room in (client.AT_HAND, 0):
        monkeypatch.setattr(client, "AT_HAND", room)
        found.append(play(Method(), model=normed, rounds=2, epochs=3, precision="fp32").state.params)
    assert all(torch.equal(found[0][k], v) for k, v in found[1].items())

"""FLea's baselines where they meet engines, batch norm and other parts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from unskew.core.method import Method
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import InputError
from unskew.testing.checks import check_method
from unskew.testing.toy_federation import apart, normed, play

BASELINES = (
    "moon",
    "feddecorr",
    "feddecorr(variant='code')",
    "fedlc",
    "fedlc(absent=1e-6)",
    "fedlc(printed=true, tau=0.1)",
    "fedrs",
    "fedrs(absent='batch')",
    "fedntd",
    "fedntd(tau=3)",
    "fedbr(group=2)",
    "fedbr(group=3, mix=0, pseudo=5)",
    "fedbr(group=2, mix=2, lam=0.8, width=8, out=4, collect=3)",
)


def dense(shape: tuple[int, ...], classes: int) -> nn.Module:
    """A dense network with batch norm and dropout: the kind that engines stack."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Dropout(0.3), nn.Linear(7, classes)
    )


@pytest.mark.slow
@pytest.mark.parametrize("expression", BASELINES)
def test_engines_agree_with_batch_norm(expression):
    """Stacked and one by one, dense and convolutional, with batches that need padding: 1e-9 after three rounds."""
    method = Method.parse(expression)
    for model, engines in (
        (dense, [FastCPU(workers=1, block=3), FastGPU("cpu")]),
        (normed, [FastCPU(workers=1), FastCPU(workers=1, block=4), FastGPU("cpu")]),
    ):
        expected = play(method, model=model, epochs=1)
        for engine in engines:
            found = play(method, model=model, epochs=1, engine=engine)
            assert apart(expected.state.params, found.state.params) < 1e-9
            assert [line["bytes"] for line in found.lines] == [line["bytes"] for line in expected.lines]


@pytest.mark.parametrize("policy", ["local", "drop"])
@pytest.mark.parametrize("expression", ["moon", "fedntd", "fedbr(group=2)"])
def test_engines_agree_where_statistics_stay_at_home(expression, policy):
    """A teacher then has the statistics of the client it teaches, under SEM too."""
    method = Method.parse(f"{expression}+sem")
    settings: dict[str, Any] = {"model": dense, "batch_norm": policy}
    expected = play(method, **settings)
    for engine in (FastCPU(workers=1, block=3), FastGPU("cpu")):
        found = play(method, engine=engine, **settings)
        assert apart(expected.state.params, found.state.params) < 1e-9


def test_memories_and_heads_reach_other_processes():
    """Two workers bring back what one process does, to the last bit."""
    method = Method.parse("fedbr(group=2)+moon")
    engine = FastCPU(workers=2)
    found = play(method, engine=engine, model=dense)
    engine.close()
    assert found.hash == play(method, engine=FastCPU(workers=1), model=dense).hash


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "feddecorr+fedlc+fedntd",
        "moon+scaffold",
        "fedrs+fednova",
        "fedbr(group=2)+feddecorr+phase_shift(2)",
        "fedntd+fedfa",
    ],
)
def test_they_combine(expression):
    """With each other, with objectives that correct gradients, with schedules and with aggregation rules."""
    check_method(expression, only=["expression", "finite", "engines", "resume", "padding", "lost"])


class Closed(nn.Module):
    """A network without a place where it could be cut."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.linspace(-0.1, 0.1, 36 * 3).reshape(36, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1) @ self.weight


@pytest.mark.parametrize("expression", ["moon", "feddecorr", "fedbr(group=2)"])
def test_a_model_that_cannot_be_split_is_refused_before_the_run(expression):
    """With what to implement, in one sentence."""
    with pytest.raises(InputError, match=r"^Closed cannot be split: give it `layers`"):
        play(Method.parse(expression), model=Closed())


def test_a_model_that_cannot_be_split_serves_the_others():
    """Logits are enough for FedLC, FedRS and FedNTD."""
    for expression in ("fedlc", "fedrs", "fedntd"):
        assert play(Method.parse(expression), model=Closed(), rounds=1).lines[0]["answered"] == 4

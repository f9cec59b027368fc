"""SCAFFOLD by hand, and the invariant that its server's variate is the mean of all clients'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import FakeNet, numbers, update
from unskew.core.method import Method
from unskew.core.slots import Batch, Needs, Objective, Step, Visit
from unskew.engines import Loop
from unskew.engines.cpu.fast import FastCPU
from unskew.engines.gpu.fast import FastGPU
from unskew.errors import InputError
from unskew.parts.aggregate import FedAvg, FedNova
from unskew.parts.objective import Scaffold
from unskew.testing.toy_federation import normed, play, tiny


def visit(**given):
    usual = {
        "net": FakeNet(),
        "start": {"w": numbers(0.0, 0.0)},
        "end": {"w": numbers(-0.2, 0.4)},
        "anchor": {"w": numbers(5.0, 5.0)},
        "moved": {"w": numbers(-0.2, 0.4)},
        "steps": 2,
        "work": 0.2,
        "census": torch.zeros(1),
        "t": 0,
        "shared": {"w": numbers(0.5, 0.5)},
        "mine": {"w": numbers(1.0, 0.0)},
        "gradient": lambda model: {"w": model["w"] * 2},
    }
    return Visit(**(usual | given))


def test_a_step_is_corrected_by_both_variates():
    """g - c_i + c = (3, 3) - (1, 0) + (0.5, 0.5) = (2.5, 3.5)."""
    batch = Batch(numbers(0.0), torch.zeros(1, dtype=torch.int64), numbers(1.0))
    trees = {"shared": {"w": numbers(0.5, 0.5)}, "mine": {"w": numbers(1.0, 0.0)}}
    step = Step(FakeNet(), {"w": numbers(0.0, 0.0)}, {"w": numbers(0.0, 0.0)}, batch, torch.zeros(1), **trees)
    assert Scaffold().correct({"w": numbers(3.0, 3.0)}, step)["w"].tolist() == [2.5, 3.5]


def test_option_two_takes_the_mean_gradient_of_the_steps():
    """Two steps of lr 0.1 moved (-0.2, 0.4): c_i+ = (1, 0) - (0.5, 0.5) - (-0.2, 0.4) / 0.2 = (1.5, -2.5)."""
    sent, kept = Scaffold(option=2).report(visit())
    assert kept["w"].tolist() == pytest.approx([1.5, -2.5])
    assert sent["w"].tolist() == pytest.approx([0.5, -2.5])


def test_option_one_takes_the_gradient_at_the_global_model():
    """The gradient of w^2 at the anchor (5, 5) is (10, 10)."""
    sent, kept = Scaffold(option=1).report(visit())
    assert kept["w"].tolist() == [10.0, 10.0]
    assert sent["w"].tolist() == [9.0, 10.0]


def test_a_client_without_a_step_keeps_its_variate():
    """There is no gradient to learn from, and nothing is divided by 0."""
    sent, kept = Scaffold().report(visit(work=0.0))
    assert kept["w"].tolist() == [1.0, 0.0]
    assert sent["w"].tolist() == [0.0, 0.0]


def test_the_server_adds_the_sum_over_all_clients():
    """Of N = 4 clients two report (1, 2) and (3, -2): c = (0.5, 0.5) + (4, 0) / 4 = (1.5, 0.5)."""
    landed = update([[0.0, 0.0]] * 2, [1, 1])
    landed.uploads = {"scaffold": {"w": torch.stack([numbers(1.0, 2.0), numbers(3.0, -2.0)])}}
    assert Scaffold().absorb({"w": numbers(0.5, 0.5)}, landed, 4)["w"].tolist() == [1.5, 0.5]


def test_eta_stretches_the_servers_step():
    """eta = 0.5: of a mean change of (1, 2), half is (0.5, 1); statistics go all of the way."""
    mean = {"w": numbers(1.0, 2.0), "mean": numbers(7.0)}
    change = Scaffold(eta=0.5).adjust(mean, {"w": numbers(0.0, 0.0)})
    assert change["w"].tolist() == [0.5, 1.0]
    assert change["mean"].tolist() == [7.0]
    assert torch.equal(Scaffold().adjust(mean, {"w": numbers(0.0, 0.0)})["w"], mean["w"])


def test_it_averages_uniformly_unless_another_rule_is_written():
    """The paper's mean; its name alone says so, and reads back as itself."""
    assert Method.parse("scaffold").aggregate == FedAvg(uniform=True)
    assert Method.parse("scaffold+fedavg").aggregate == FedAvg()
    assert Method.parse("scaffold+fednova").aggregate == FedNova()
    for text in ("scaffold", "scaffold+fedavg", "sem+scaffold", "scaffold+fednova"):
        assert str(Method.parse(text)) == text


@pytest.mark.parametrize("schedule", ["plain", "sem", "sem(via=others)", "phase_shift(2)", "phase_shift(3)"])
@pytest.mark.parametrize("faults", [{}, {"drop": 0.3}, {"drop": 0.3, "late": 0.4, "nan": 0.2}])
@pytest.mark.parametrize("option", [1, 2])
def test_the_servers_variate_is_the_mean_of_all_clients(schedule, faults, option):
    """c == mean(c_i), whatever was handed over, kept or lost: a variate moves only when its upload lands."""
    played = play(Method.parse(f"scaffold({option})+{schedule}"), rounds=5, **faults)
    mine = played.state.clients.rows.get("scaffold", {})
    assert mine
    for name, c in played.state.server["scaffold"].items():
        mean = sum(tree[name] for tree in mine.values()) / tiny().clients
        assert float((c - mean).abs().max()) < 1e-12
        assert float(c.abs().max()) > 0


@pytest.mark.parametrize(
    "loss", ["fedavg", "balanced", "balanced(counts=global)", "fedlc", "fedrs", "fedlc+balanced"]
)
def test_option_one_takes_the_gradient_of_the_loss_that_the_client_trains_on(loss):
    """After one step on a client's whole data both options know the same gradient, whatever weighs its classes."""
    one, two = (
        play(Method.parse(f"scaffold({option})+{loss}"), rounds=1, epochs=1, batch=64).state.clients
        for option in (1, 2)
    )
    for client, variate in one.rows["scaffold"].items():
        for name, value in variate.items():
            assert torch.allclose(value, two.rows["scaffold"][client][name], atol=1e-12)


def layered(shape, classes):
    """Batch norm between two dense layers, and no dropout."""
    inputs = shape[0] * shape[1] * shape[2]
    return nn.Sequential(
        nn.Flatten(), nn.Linear(inputs, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, classes)
    )


@pytest.mark.parametrize("policy", ["average", "local", "drop"])
@pytest.mark.parametrize("engine", [Loop, FastCPU, lambda: FastGPU("cpu")])
def test_option_one_normalises_as_a_step_does(policy, engine):
    """With batch norm, too, both options know the same gradient after one step: by the statistics of the samples.

    By averages that were kept it is the gradient of another function, and no step's: variates that are none of what
    clients train on pull the model away.
    """
    settings = {"rounds": 1, "epochs": 1, "batch": 64, "model": layered, "batch_norm": policy}
    one, two = (
        play(Method.parse(f"scaffold({option})"), tiny(sizes=[5, 3, 9]), engine=engine(), **settings)
        for option in (1, 2)
    )
    assert one.hash == two.hash
    for client, variate in one.state.clients.rows["scaffold"].items():
        for name, value in variate.items():
            assert torch.allclose(value, two.state.clients.rows["scaffold"][client][name], atol=1e-12)


def test_option_one_of_a_client_without_samples_that_goes_on_with_anothers_model():
    """Under SEM it closes a visit with steps in it, the other's: its own gradient is 0."""
    played = play(Method.parse("scaffold(1)+sem"), tiny(sizes=[6, 0]), rounds=1, cohort=2)
    first, second = (played.state.clients.rows["scaffold"][k] for k in (0, 1))
    assert any(bool(v.any()) for v in first.values())
    assert not any(bool(v.any()) for v in second.values())


def test_a_client_whose_samples_overflow_spoils_no_others_statistics():
    """The pass over its data leaves no trace in the model that all clients begin with: the other two go on."""
    held = tiny(sizes=[4, 4, 4])
    x = held.dataset.x.astype(np.float32)
    x[0] = 1e30  # its square is beyond float32
    federation = replace(held, dataset=replace(held.dataset, x=x))
    for line in play(
        Method.parse("scaffold(1)"), federation, model=layered, cohort=3, precision="fp32"
    ).lines:
        assert line["rejected"] == [0]
        assert line["answered"] == 2


@dataclass(frozen=True)
class Noisy(Objective):
    """Logits with noise that is drawn for each step."""

    name: ClassVar[str] = "noisy"
    paper: ClassVar[str] = "nobody's"

    def draw(self, rng, steps, batch):
        return {"noise": rng.normal(size=(steps, batch))}

    def logits(self, logits, step):
        return logits + step.draws["noise"][: len(logits), None]


@dataclass(frozen=True)
class Sharp(Objective):
    """Logits that are sharper where features are large."""

    name: ClassVar[str] = "sharp"
    paper: ClassVar[str] = "nobody's"
    needs: ClassVar[Needs] = Needs(features=True)

    def logits(self, logits, step):
        return logits * (1 + step.out.features.square().sum(1, keepdim=True))


@pytest.mark.parametrize("part", [Noisy(), Sharp()])
def test_option_one_goes_without_what_only_a_step_has(part):
    """A gradient over all the data draws no numbers and keeps no features; such parts are left out of it."""
    alone, beside = (
        play(Method.of(Scaffold(option=1), *more), rounds=1).state.clients for more in ((), (part,))
    )
    for client, variate in alone.rows["scaffold"].items():
        for name, value in variate.items():
            assert torch.allclose(value, beside.rows["scaffold"][client][name], atol=1e-12)


def test_under_sem_the_second_client_counts_the_steps_of_both():
    """Every variate after one round of SEM is the mean gradient of the whole model's way: -moved / (2 halves x lr)."""
    played = play(Method.parse("scaffold+sem"), tiny(sizes=[4, 4]), rounds=1, cohort=2)
    start = play(Method.parse("scaffold+sem"), tiny(sizes=[4, 4]), rounds=1, cohort=2, drop=1.0).state.params
    # both models start from the same place with variates 0; E = 2 epochs of one batch, one at each client, lr 0.1
    mean = {k: (played.state.params[k] - v) / -0.2 for k, v in start.items()}
    for name, value in mean.items():
        variates = [tree[name] for tree in played.state.clients.rows["scaffold"].values()]
        assert float((sum(variates) / 2 - value).abs().max()) < 1e-12


def test_momentum_does_not_inflate_the_variates():
    """With momentum 0.9 a variate is still a gradient: of the size it has without, not ten times as large."""

    def size(**settings):
        rows = play(Method.parse("scaffold"), rounds=1, epochs=12, lr=1e-4, **settings).state.clients.rows
        return (
            sum(float(v.square().sum()) for tree in rows["scaffold"].values() for v in tree.values()) ** 0.5
        )

    assert size(momentum=0.9) == pytest.approx(size(), rel=0.05)


def test_batch_norm_statistics_have_no_variate():
    """Only what is trained is corrected; running averages are averaged."""
    played = play(Method.parse("scaffold"), model=normed)
    assert not any("running" in name for name in played.state.server["scaffold"])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("scaffold(3)", "option of scaffold must be 1 or 2, the paper's I and II, not 3"),
        ("scaffold(eta=0)", "eta of scaffold must be above 0, not 0.0"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence

"""FedMix by hand: the means, the mixed batch, the Taylor term, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from by_hand import before_round_0, holding, numbers
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.slots import Batch, Local, Step
from unskew.core.step import LocalTraining, StepInputs, loss
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.models import build
from unskew.parts.objective import FedMix
from unskew.testing.toy_federation import apart, other_engines, play

pytestmark = pytest.mark.filterwarnings("ignore:.*share nothing by fedmix")


class Scaled(nn.Module):
    """logits = (w x, 0)."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor(1.0))

    def forward(self, x):
        return torch.cat([self.w * x, 0 * x], 1)


def step(part: FedMix, x, y, mean, shares, *, w=1.0, beta=0.25) -> Step:
    """One batch, mixed with the one mean there is."""
    net = Net(build(Scaled(), (1,), 2, dtype=torch.float64))
    params = {net.trainable[0]: torch.tensor(w, dtype=torch.float64, requires_grad=True)}
    batch = Batch(numbers(*x)[:, None], torch.tensor(y), torch.ones(len(x), dtype=torch.float64))
    shared = {"rows": numbers(mean)[:, None], "labels": numbers(*shares)[None]}
    draws = {"beta": torch.tensor(beta), "deal": torch.tensor(1), "deal step": torch.tensor(0)}
    draws["deal size"] = torch.tensor(1 if part.taylor else len(x))
    found = Step(net.bound({}), params, {}, batch, torch.zeros(2), shared=shared, draws=draws)
    found.batch = part.inputs(batch, found)
    return found


def test_without_the_taylor_term_samples_and_means_are_mixed():
    """b = 1/4: x = 1 of class 0 with a mean of 5, labels (0, 1): 1/4 + 15/4 = 4 and (1/4, 3/4)."""
    mixed = step(FedMix(taylor=False), [1.0], [0], 5.0, (0.0, 1.0)).batch
    assert mixed.x.tolist() == [[4.0]]
    assert mixed.y.tolist() == [[0.25, 0.75]]
    assert FedMix(taylor=False).penalty(step(FedMix(taylor=False), [1.0], [0], 5.0, (0.0, 1.0))) == 0.0


def test_the_taylor_term_is_the_slope_along_the_mean():
    """lambda = 1/2, w = ln 3, x = 2 of class 0, a mean of 3 with labels (1/2, 1/2).

    (1 - lambda) x = 1 has p = (3/4, 1/4). L1 = 1/2 ln(4/3); the label term is 1/2 (1/2 ln(4/3) + 1/2 ln 4);
    d/dx L1 = 1/2 w (p_0 - 1) = -w/8, so that the last term is 1/2 x (-ln 3 / 8) x 3.
    """
    part = FedMix(mix=0.5)
    at = step(part, [2.0], [0], 3.0, (0.5, 0.5), w=math.log(3))
    assert at.batch.x.tolist() == [[1.0]]
    assert at.batch.y.tolist() == [[0.75, 0.25]]
    task = CLASSIFICATION.loss(at.net(at.params, at.batch.x), at.batch.y, at.batch.weight)
    assert task.item() == pytest.approx(0.5 * math.log(4 / 3) + 0.25 * (math.log(4 / 3) + math.log(4)))
    assert part.penalty(at).item() == pytest.approx(-3 / 16 * math.log(3))


def test_the_taylor_terms_gradient_reaches_the_weights():
    """The term is lambda/2 x mean x w (p_0 - 1) with p_0 - 1 = -1/(1 + e^w): its slope in w by hand.

    d/dw [-w / (1 + e^w)] = -1/(1 + e^w) + w e^w / (1 + e^w)^2 = -1/4 + ln 3 x 3/16 at w = ln 3.
    """
    part = FedMix(mix=0.5)
    at = step(part, [2.0], [0], 3.0, (0.5, 0.5), w=math.log(3))
    slope = torch.autograd.grad(part.penalty(at), list(at.params.values()))[0]
    assert slope.item() == pytest.approx(0.5 * 3 * 0.5 * (-0.25 + math.log(3) * 3 / 16))


def test_it_is_mixup_to_first_order():
    """With the mean of one group the expansion misses exact mixing by the order of lambda squared."""

    def error(mix: float) -> float:
        at = step(FedMix(mix=mix), [2.0], [0], 3.0, (0.0, 1.0))
        ours = CLASSIFICATION.loss(at.net(at.params, at.batch.x), at.batch.y, at.batch.weight) + FedMix(
            mix=mix
        ).penalty(at)
        x = numbers((1 - mix) * 2 + mix * 3)[:, None]
        return abs(
            ours.item() - CLASSIFICATION.loss(at.net(at.params, x), at.batch.y, at.batch.weight).item()
        )

    assert error(0.01) < 1e-3
    assert error(0.01) / error(0.02) == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("others", ["fedlc(absent=1)", "balanced(counts=global)", "fedrs+fedlc(absent=1)"])
def test_it_is_mixup_of_the_loss_that_a_client_minimises(others):
    """Beside parts that change logits or weigh classes the expansion is of their loss: off by lambda squared, too."""
    net = Net(build(Scaled(), (1,), 2, dtype=torch.float64))
    params = {net.trainable[0]: torch.tensor(0.7, dtype=torch.float64)}
    beside, held, weight = Method.parse(others).objective, torch.tensor([7, 1]), torch.ones(1)

    def of(parts, x, y, **shared):
        known = {part.name: shared if isinstance(part, FedMix) else {"counts": held} for part in parts}
        drawn = {"deal": torch.tensor(1), "deal step": torch.tensor(0), "deal size": torch.tensor(1)}
        around = {}, held, known, {part.name: {} for part in parts}, {part.name: drawn for part in parts}
        return float(
            loss(LocalTraining(net, parts, Local(), 0), params, StepInputs({}, x, y, weight, *around), False)
        )

    def error(mix: float) -> float:
        shared = {"rows": numbers(3.0)[:, None], "labels": numbers(0.0, 1.0)[None]}
        ours = of((FedMix(mix=mix), *beside), numbers(2.0)[:, None], torch.tensor([0]), **shared)
        exact = of(beside, numbers((1 - mix) * 2 + mix * 3)[:, None], numbers(1 - mix, mix)[None])
        return abs(ours - exact)

    assert error(0.01) / error(0.02) == pytest.approx(0.25, rel=0.05)


class Attends(nn.Module):
    """Two logits of a sequence of four pairs of numbers, by torch's own attention."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(2, 1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0].sum(1)


def test_the_slope_goes_through_attention_too():
    """Its fused kernel has no second derivative, which the Taylor term's gradient needs."""
    part = FedMix(mix=0.5)
    net = Net(build(Attends(), (4, 2), 2, dtype=torch.float64))
    params = {k: net.initial[k].requires_grad_() for k in net.trainable}
    x = torch.linspace(-1, 1, 24, dtype=torch.float64).reshape(3, 4, 2)
    batch = Batch(x, torch.tensor([0, 1, 0]), torch.ones(3, dtype=torch.float64))
    shared = {"rows": x[:1] + 1, "labels": numbers(0.5, 0.5)[None]}
    draws = {"deal": torch.tensor(1), "deal step": torch.tensor(0), "deal size": torch.tensor(1)}
    at = Step(net.bound({}), params, {}, batch, torch.zeros(2), shared=shared, draws=draws)
    at.batch = part.inputs(batch, at)
    found = torch.autograd.grad(part.penalty(at), list(params.values()), allow_unused=True)
    assert any(slope is not None and slope.abs().max() > 0 for slope in found)


@pytest.mark.parametrize(("group", "rows"), [(2, 2 + 1 + 3), (4, 1 + 0 + 1), (0, 3)])
def test_means_are_of_whole_groups(group, rows):
    """Clients of 4, 3 and 6 samples; what is left over is not shared, since a mean of one is a sample."""
    federation = holding([[2, 2], [3, 0], [0, 6]])
    held = before_round_0(FedMix(group=group), federation)
    assert len(held["rows"]) == rows
    assert torch.allclose(held["labels"].sum(1), torch.ones(rows, dtype=torch.float64))
    assert held["labels"][held["owner"] == 1].tolist() == [[1.0, 0.0]] * int((held["owner"] == 1).sum())
    if group == 0:
        data = federation.dataset
        x = (data.x.astype(np.float64) - np.reshape(data.mean, (-1, 1, 1))) / np.reshape(data.std, (-1, 1, 1))
        for client in range(3):
            assert np.allclose(held["rows"][client], x[federation.samples(client)].mean(0))


def test_what_is_exchanged_is_counted():
    """Up once, before round 0; down with every model; everybody's averages go to whoever trains."""
    played = play(Method.parse("fedmix(group=2)"), rounds=2, cohort=4)
    rows = len(played.state.server["fedmix"]["rows"])
    size = rows * (36 + 3) * 8
    assert played.lines[0]["bytes"]["up"]["fedmix at the start"] == size
    assert "fedmix at the start" not in played.lines[1]["bytes"]["up"]
    assert [line["bytes"]["down"]["fedmix"] for line in played.lines] == [4 * size] * 2
    assert played.lines[0]["exchanged"]["fedmix"]["from"] == "all"


@pytest.mark.slow
@pytest.mark.parametrize("taylor", ["true", "false"])
@pytest.mark.parametrize("other", ["sem", "phase_shift(2)", "scaffold", "fedprox+fednova", "fedntd"])
def test_it_composes(taylor, other):
    """It trains, resumes to the bit, and engines agree."""
    method = Method.parse(f"fedmix(group=2, taylor={taylor})+{other}")
    few = {"rounds": 3, "epochs": 1}
    whole, stopped = (play(method, stopped=s, **few) for s in (False, True))
    assert whole.hash != whole.started
    assert whole == stopped
    for engine in other_engines():
        assert apart(whole.state.params, play(method, engine=engine, **few).state.params) < 1e-9


def test_who_cannot_fill_a_group_shares_nothing_and_is_warned_of():
    """Clients of 2 to 9 samples and groups of ten."""
    with pytest.warns(
        UserWarning, match="8 of 8 clients hold fewer than 10 samples and share nothing by fedmix"
    ):
        played = play(Method.parse("fedmix"))
    assert played.hash == play(Method.parse("fedavg")).hash


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "fedmix(1)",
            "group of fedmix is a number of samples of at least 2 (the mean of one is that sample), or 0 for all of a "
            "client's, not 1",
        ),
        ("fedmix(mix=1)", "mix of fedmix is a share of at least 0 and below 1, not 1.0"),
        ("fedmix(taylor=false, a=0)", "a of fedmix must be above 0, not 0.0"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence

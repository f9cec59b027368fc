"""FedProx by hand, fixed and adaptive."""

from __future__ import annotations

import pytest
import torch

from by_hand import FakeNet, numbers, update
from unskew.core.method import Method
from unskew.core.slots import Batch, Step
from unskew.errors import InputError
from unskew.parts.objective import FedProx
from unskew.testing.toy_federation import play


def step(w, anchor, **trees):
    batch = Batch(numbers(0.0), torch.zeros(1, dtype=torch.int64), numbers(1.0))
    return Step(FakeNet(), {"w": w}, {"w": anchor}, batch, torch.zeros(1), **trees)


def test_the_penalty_and_its_gradient():
    """w = (1, 2), anchor (0, 0.5), mu = 0.4: 0.4/2 (1 + 2.25) = 0.65; gradient 0.4 (1, 1.5) = (0.4, 0.6)."""
    w = numbers(1.0, 2.0).requires_grad_()
    value = FedProx(mu=0.4).penalty(step(w, numbers(0.0, 0.5)))
    assert float(value.detach()) == pytest.approx(0.65)
    (gradient,) = torch.autograd.grad(value, w)
    assert gradient.tolist() == pytest.approx([0.4, 0.6])


def test_adaptive_takes_mu_from_the_server():
    """The same penalty, with mu = 0.4 shared."""
    given = step(numbers(1.0, 2.0), numbers(0.0, 0.5), shared={"mu": torch.tensor(0.4)})
    assert float(FedProx(adaptive=True).penalty(given)) == pytest.approx(0.65)


def test_mu_rises_with_the_loss_and_falls_after_five_better_rounds():
    """Losses 5, 6, 5, 4, 3, 2, 1, 1, 2, 3 from mu = 0.

    Round 2 is worse: 0.1. Rounds 3 to 7 are better, five in a row: 0.0. Round 8 is the same: no change. Rounds 9
    and 10 are worse: 0.1, 0.2.
    """
    part = FedProx(adaptive=True)
    memory, found = part.init_server(FakeNet()), []
    for loss in (5, 6, 5, 4, 3, 2, 1, 1, 2, 3):
        answers = update([[0.0, 0.0]] * 2, [1, 3])
        answers.probes = {"loss": numbers(loss + 3, loss - 1)}  # weighted by samples: loss
        memory = part.absorb(memory, answers, clients=5)
        found.append(float(memory["mu"]))
    assert found == [0.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.0, 0.0, 0.1, 0.2]
    assert float(part.hand_out(memory, 10)["mu"]) == pytest.approx(0.2)


def test_mu_never_falls_below_zero():
    """Eleven falling rounds from 0.1: 0 after five, and still 0 after ten."""
    part = FedProx(mu=0.1, adaptive=True)
    memory = part.init_server(FakeNet())
    for loss in range(20, 8, -1):
        answers = update([[0.0, 0.0]], [1])
        answers.probes = {"loss": numbers(loss)}
        memory = part.absorb(memory, answers, clients=5)
    assert float(memory["mu"]) == 0.0


@pytest.mark.parametrize("settings", [{}, {"momentum": 0.9}])
def test_mu_zero_is_fedavg_to_the_last_bit(settings):
    """No spring, no change, with momentum or without."""
    assert (
        play(Method.parse("fedprox(mu=0)"), **settings).hash == play(Method.parse("fedavg"), **settings).hash
    )


def test_mu_changes_the_model():
    """Its default is not neutral."""
    assert play(Method.parse("fedprox")).hash != play(Method.parse("fedavg")).hash


def test_a_strong_pull_keeps_the_model_near_the_global_one():
    """With mu = 9 and lr = 0.1 a step keeps a tenth of the drift so far: the model ends nearer to where it began."""

    def moved(method):
        played = play(Method.parse(method), rounds=1, epochs=8)
        start = play(Method.parse(method), rounds=1, drop=1.0).state.params
        return sum(float((played.state.params[k] - v).square().sum()) for k, v in start.items())

    assert moved("fedprox(mu=9)") < moved("fedavg") / 4


def test_defaults_and_what_it_asks_for():
    """0.01 where fixed, a start at 0 where adaptive; only the adaptive one needs losses, and says so."""
    assert (FedProx().start, FedProx(adaptive=True).start, FedProx(0.1, adaptive=True).start) == (
        0.01,
        0.0,
        0.1,
    )
    assert (FedProx().probes, FedProx().discloses) == ((), ())
    assert FedProx(adaptive=True).probes == ("loss",)
    assert FedProx(adaptive=True).discloses == ("its loss under the global model",)


def test_a_negative_mu_is_refused():
    """A spring that pushes is a mistake."""
    with pytest.raises(InputError, match=r"^mu of fedprox must be at least 0, not -0\.1$"):
        Method.parse("fedprox(mu=-0.1)")

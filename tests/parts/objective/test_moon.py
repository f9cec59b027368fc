"""MOON by hand."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from by_hand import Lens, numbers, seen
from unskew.core.method import Method
from unskew.core.slots import Visit
from unskew.errors import InputError
from unskew.parts.objective import MOON
from unskew.testing.toy_federation import normed, play

RIGHT, UP = numbers(1.0, 0.0), numbers(0.0, 1.0)
"""Models under which the sample (1, 1) has the features (1, 0) and (0, 1)."""


def remembered(w):
    return {"met": numbers(1.0)[0], "last": {"w": w}}


def test_the_loss_of_two_classes():
    """Features (1, 0) as the global model's, (0, 1) under the last one: sims 1 and 0; tau = 0.5.

    l_con = -ln(e^2 / (e^2 + e^0)) = ln(1 + e^-2), times mu = 5.
    """
    step = seen([[1.0, 1.0]], [0], w=RIGHT, anchor=RIGHT, mine=remembered(UP))
    assert float(MOON(mu=5).penalty(step)) == pytest.approx(5 * log(1 + exp(-2)))


def test_the_other_way_round():
    """As the last model's and unlike the global one's: ln(1 + e^2)."""
    step = seen([[1.0, 1.0]], [0], w=UP, anchor=RIGHT, mine=remembered(UP))
    assert float(MOON().penalty(step)) == pytest.approx(log(1 + exp(2)))


def test_models_that_agree_pull_nowhere():
    """Where the last model is the global one, l_con is ln 2 and its gradient 0."""
    w = numbers(0.6, 0.3).requires_grad_()
    step = seen([[1.0, 1.0]], [0], w=w, anchor=RIGHT, mine=remembered(RIGHT))
    value = MOON().penalty(step)
    assert float(value.detach()) == pytest.approx(log(2))
    assert torch.autograd.grad(value, w)[0].tolist() == pytest.approx([0.0, 0.0])


def test_padding_counts_for_nothing():
    """The second row has weight 0."""
    step = seen([[1.0, 1.0], [9.0, -5.0]], [0, 1], w=RIGHT, anchor=RIGHT, weight=[1, 0], mine=remembered(UP))
    assert float(MOON().penalty(step)) == pytest.approx(log(1 + exp(-2)))


def test_a_client_remembers_the_model_it_ends_with():
    """The model, its statistics and that there is one; nothing is uploaded; other parts' heads are not kept."""
    net = Lens()
    net.buffers = ("mean",)
    end = {"w": UP, "other:head": numbers(7.0), "mean": numbers(3.0)}
    mine = MOON().init_client(net, 1.0)
    assert (float(mine["met"]), mine["last"]["w"].tolist()) == (0.0, [1.0, 1.0])
    visit = Visit(net, end, end, end, end, 1, 1.0, torch.zeros(2), 0, {}, mine, gradient=lambda model: model)
    sent, kept = MOON().report(visit)
    assert sent == {}
    assert (set(kept), set(kept["last"])) == ({"met", "last"}, {"w", "mean"})
    assert (float(kept["met"]), kept["last"]["w"].tolist()) == (1.0, [0.0, 1.0])


def test_without_a_last_model_there_is_no_contrast():
    """Everybody's first round is FedAvg's, to the last bit; the second is not."""
    moon, plain = Method.parse("moon"), Method.parse("fedavg")
    assert play(moon, rounds=1, cohort=8).hash == play(plain, rounds=1, cohort=8).hash
    assert play(moon, rounds=2, cohort=8).hash != play(plain, rounds=2, cohort=8).hash


def test_what_clients_remember_is_what_they_uploaded():
    """With everybody in one round and equal weights, the mean of the memories is the global model."""
    played = play(Method.parse("moon+fedavg(uniform=true)"), rounds=1, cohort=8, model=normed)
    mine = played.state.clients.rows["moon"]
    for name, value in played.state.params.items():
        mean = sum(tree["last"][name] for tree in mine.values()) / 8
        assert float((mean - value).abs().max()) < 1e-12


def test_values_that_make_no_sense_are_refused():
    """A temperature is above 0 and a weight not below."""
    with pytest.raises(InputError, match=r"^tau of moon is a temperature above 0, not 0\.0$"):
        Method.parse("moon(tau=0)")
    with pytest.raises(InputError, match=r"^mu of moon must be at least 0, not -1\.0$"):
        Method.parse("moon(-1)")

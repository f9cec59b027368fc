"""FedLC by hand."""

from __future__ import annotations

from math import exp, log

import pytest
import torch

from by_hand import numbers, seen
from unskew.core.method import Method
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.parts.objective import FedLC
from unskew.testing.toy_federation import play, tiny


def loss(part, step):
    return CLASSIFICATION.loss(
        part.logits(step.out.logits, step), step.out.target, step.batch.weight
    ) + part.penalty(step)


def test_the_loss_of_two_classes():
    """16 samples of class 0 and 1 of class 1: margins 16^(-1/4) = 0.5 and 1.

    Logits (1, 1) become (0.5, 0): CE of class 0 = ln(1 + e^-0.5), of class 1 = ln(1 + e^0.5): the rarer costs more.
    """
    for label, expected in ((0, log(1 + exp(-0.5))), (1, log(1 + exp(0.5)))):
        step = seen([[1.0, 1.0]], [label], census=[16, 1])
        assert float(loss(FedLC(), step)) == pytest.approx(expected)


def test_a_class_that_the_client_lacks_leaves_the_softmax():
    """Counts (16, 0): its margin is infinite, class 0 has probability 1, and neither logit has a gradient."""
    step = seen([[1.0, 9.0]], [0], census=[16, 0])
    logits = numbers(1.0, 9.0)[None].requires_grad_()
    value = CLASSIFICATION.loss(FedLC().logits(logits, step), step.batch.y, step.batch.weight)
    assert float(value.detach()) == 0.0
    assert torch.autograd.grad(value, logits)[0].tolist() == [[0.0, 0.0]]


def test_padding_of_a_class_that_the_client_lacks_is_no_nan():
    """The second row has weight 0 and a label that left the softmax."""
    step = seen([[1.0, 1.0], [1.0, 1.0]], [0, 1], weight=[1, 0], census=[16, 0])
    assert float(loss(FedLC(), step)) == 0.0


def test_fleas_count_for_absent_classes():
    """1e-6 added to a count of 0: a margin of 1e-6^(-1/4) = 31.62 tau."""
    step = seen([[1.0, 1.0]], [0], census=[16, 0])
    lowered = FedLC(absent=1e-6).logits(step.out.logits, step)[0]
    assert lowered.tolist() == pytest.approx([0.5, 1 - 31.6228], abs=1e-4)


def test_the_printed_sum_leaves_the_true_class_out():
    """Calibrated logits (0.5, 0): -log(e^0.5 / e^0) = -0.5, and nothing holds it from falling."""
    step = seen([[1.0, 1.0]], [0], census=[16, 1])
    assert float(loss(FedLC(printed=True), step)) == pytest.approx(-0.5)
    further = seen([[7.0, 1.0]], [0], census=[16, 1])
    assert float(loss(FedLC(printed=True), further)) == pytest.approx(-6.5)


def test_weights_of_a_class_nobody_holds_stay_as_they_came():
    """Nobody holds class 2: its row of the classifier is that of the start after three rounds; FedAvg moves it."""
    lacking = tiny(missing=2)
    start = play(Method(), lacking, drop=1.0).state.params["out.weight"][2]
    assert play(Method.parse("fedlc"), lacking).state.params["out.weight"][2].equal(start)
    assert not play(Method.parse("fedavg"), lacking).state.params["out.weight"][2].equal(start)


def test_values_that_make_no_sense_are_refused():
    """Margins and counts are not negative."""
    with pytest.raises(InputError, match=r"^tau of fedlc must be at least 0, not -1\.0$"):
        Method.parse("fedlc(tau=-1)")
    with pytest.raises(
        InputError,
        match=r"^absent of fedlc is added to counts and must be at least 0, such as 1e-6, not -0\.1$",
    ):
        Method.parse("fedlc(absent=-0.1)")

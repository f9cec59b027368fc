"""FedNTD by hand."""

from __future__ import annotations

from math import log, sqrt

import pytest
import torch

from by_hand import numbers, seen
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.objective import FedNTD

OBLIVIOUS = numbers(0.0, 0.0, 0.0)
"""A global model that says (0, 0, 0) of everything."""


def test_two_classes_have_nothing_to_distil():
    """One not-true class has all of what is left in both models: KL = 0, whatever they say."""
    step = seen([[5.0, -3.0]], [0], anchor=numbers(0.1, 2.0))
    assert float(FedNTD(beta=7).penalty(step)) == pytest.approx(0.0)


def test_the_loss_of_three_classes():
    """Class 0 is true; logits (5, ln 3, 0) leave (3/4, 1/4), the global model (0, 0, 0) leaves (1/2, 1/2).

    KL = 1/2 ln((1/2) / (3/4)) + 1/2 ln((1/2) / (1/4)) = 1/2 ln(4/3).
    """
    step = seen([[5.0, log(3), 0.0]], [0], anchor=OBLIVIOUS, census=[1, 1, 1])
    assert float(FedNTD().penalty(step)) == pytest.approx(log(4 / 3) / 2)
    assert float(FedNTD(beta=0.3).penalty(step)) == pytest.approx(0.3 * log(4 / 3) / 2)


def test_temperature():
    """tau = 2: (sqrt 3, 1) / (sqrt 3 + 1) against halves; 4 times 1/2 ln((sqrt 3 + 1)^2 / (4 sqrt 3))."""
    step = seen([[5.0, log(3), 0.0]], [0], anchor=OBLIVIOUS, census=[1, 1, 1])
    expected = 2 * log((sqrt(3) + 1) ** 2 / (4 * sqrt(3)))
    assert float(FedNTD(tau=2).penalty(step)) == pytest.approx(expected)


def test_the_true_class_is_free_to_move():
    """Gradient in the logits: 0 for the true class, q - q_g = (1/4, -1/4) for the others."""
    w = torch.ones(3, dtype=torch.float64, requires_grad=True)
    step = seen([[5.0, log(3), 1.0]], [0], w=w, anchor=OBLIVIOUS, census=[1, 1, 1])
    step.out.logits = step.out.logits - numbers(0.0, 0.0, 1.0)
    (gradient,) = torch.autograd.grad(FedNTD().penalty(step), w)
    assert gradient.tolist() == pytest.approx([0.0, log(3) / 4, -1 / 4])


def test_padding_and_soft_labels():
    """Rows of weight 0 count for nothing; of a soft label the largest share is the true class."""
    step = seen(
        [[5.0, log(3), 0.0], [0.0, 9.0, -9.0]], [0, 0], anchor=OBLIVIOUS, weight=[1, 0], census=[1, 1, 1]
    )
    assert float(FedNTD().penalty(step)) == pytest.approx(log(4 / 3) / 2)
    step.out.target = torch.stack([numbers(0.6, 0.4, 0.0), numbers(0.0, 0.0, 1.0)])
    assert float(FedNTD().penalty(step)) == pytest.approx(log(4 / 3) / 2)


def test_values_that_make_no_sense_are_refused():
    """A temperature is above 0 and a weight not below."""
    with pytest.raises(InputError, match=r"^tau of fedntd is a temperature above 0, not 0\.0$"):
        Method.parse("fedntd(tau=0)")
    with pytest.raises(InputError, match=r"^beta of fedntd must be at least 0, not -1\.0$"):
        Method.parse("fedntd(-1)")

"""FedRS by hand."""

from __future__ import annotations

from math import log

import pytest
import torch

from by_hand import numbers, seen
from unskew.core.method import Method
from unskew.core.task import CLASSIFICATION
from unskew.errors import InputError
from unskew.parts.objective import FedRS


def test_the_loss_of_two_classes_and_its_gradient():
    """Logits (2, 4), the client holds class 0 only, alpha = 0.5: restricted to (2, 2).

    CE of class 0 = ln 2. Gradient: (p_0 - 1, alpha p_1) = (-0.5, 0.25), where plain softmax has (-0.88, 0.88).
    """
    step = seen([[2.0, 4.0]], [0], census=[3, 0])
    logits = numbers(2.0, 4.0)[None].requires_grad_()
    value = CLASSIFICATION.loss(FedRS().logits(logits, step), step.batch.y, step.batch.weight)
    assert float(value.detach()) == pytest.approx(log(2))
    assert torch.autograd.grad(value, logits)[0][0].tolist() == pytest.approx([-0.5, 0.25])


def test_classes_that_the_client_holds_are_left_alone():
    """With both classes held nothing is scaled, whatever is in the batch."""
    step = seen([[2.0, 4.0]], [0], census=[3, 1])
    assert FedRS(alpha=0.1).logits(step.out.logits, step).tolist() == [[2.0, 4.0]]


def test_alpha_is_not_rounded_to_float32():
    """A run in float64 scales by 0.3 and not by the float32 next to it, which is 1e-8 away."""
    step = seen([[2.0, 4.0]], [0], census=[3, 0])
    assert FedRS(alpha=0.3).logits(step.out.logits, step).tolist() == [[2.0, 0.3 * 4.0]]


def test_absent_from_the_batch_as_in_fleas_code():
    """Both classes are held, class 1 alone is in the batch: class 0 is scaled; padding of class 0 does not count."""
    step = seen([[2.0, 4.0], [6.0, 8.0]], [1, 0], weight=[1, 0], census=[3, 1])
    scaled = FedRS(absent="batch").logits(step.out.logits, step)
    assert scaled.tolist() == [[1.0, 4.0], [3.0, 8.0]]


def test_soft_labels_are_in_the_batch_too():
    """A target of (0.9, 0.1) holds both classes."""
    step = seen([[2.0, 4.0]], [0])
    step.out.target = numbers(0.9, 0.1)[None]
    assert FedRS(absent="batch").logits(step.out.logits, step).tolist() == [[2.0, 4.0]]


def test_values_that_make_no_sense_are_refused():
    """A factor above 1 would push harder; what is absent is absent from the client or the batch."""
    with pytest.raises(InputError, match=r"^alpha of fedrs must be from 0 to 1, not 1\.5$"):
        Method.parse("fedrs(1.5)")
    with pytest.raises(InputError, match=r"^absent of fedrs must be client or batch, not round$"):
        Method.parse("fedrs(absent='round')")

"""FedDecorr by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from by_hand import seen
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.objective import FedDecorr
from unskew.parts.objective.feddecorr import correlation
from unskew.seeds import generator


def test_features_that_move_together():
    """(1, 1) and (-1, -1): K has ones only, ||K||^2 / d^2 = 4 / 4; beta = 0.1."""
    step = seen([[1.0, 1.0], [-1.0, -1.0]], [0, 1])
    assert float(FedDecorr().penalty(step)) == pytest.approx(0.1)


def test_features_that_move_apart():
    """The four corners: K is the identity, 2 / 4."""
    step = seen([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], [0, 1, 0, 1])
    assert float(FedDecorr(beta=1).penalty(step)) == pytest.approx(0.5)


def test_the_authors_code():
    """(1, 1) and (-1, -1): variance 2, scores 1/sqrt 2; the product of two columns is 1, its square over N is 1/2.

    That is (N - 1)^2 / N r^2, about N times the paper's; the diagonal does not count, so that corners give 0.
    """
    step = seen([[1.0, 1.0], [-1.0, -1.0]], [0, 1])
    assert float(FedDecorr(beta=1, variant="code").penalty(step)) == pytest.approx(0.5)
    corners = seen([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], [0, 1, 0, 1])
    assert float(FedDecorr(beta=1, variant="code").penalty(corners)) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_padding_counts_for_nothing(variant):
    """A third row of weight 0."""
    plain = seen([[1.0, 2.0], [-1.0, 0.5]], [0, 1])
    padded = seen([[1.0, 2.0], [-1.0, 0.5], [70.0, -7.0]], [0, 1, 0], weight=[1, 1, 0])
    part = FedDecorr(beta=1, variant=variant)
    assert float(part.penalty(padded)) == pytest.approx(float(part.penalty(plain)), rel=1e-12)


@pytest.mark.parametrize("variant", ["paper", "code"])
def test_one_sample_is_worth_nothing_and_has_no_gradient(variant):
    """No variance, no correlation, no nan."""
    features = torch.tensor([[3.0, -2.0]], requires_grad=True)
    value = correlation(features, torch.ones(1), variant)
    assert float(value.detach()) == 0.0
    assert torch.autograd.grad(value, features)[0].tolist() == [[0.0, 0.0]]


@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 10**6))
def test_it_is_the_correlation_matrix_that_numpy_gives(samples, dimensions, seed):
    """More samples than dimensions or fewer, in both variants."""
    features = generator(seed, "features").normal(scale=1000, size=(samples, dimensions))  # eps is as nothing
    r = np.corrcoef(features.T)
    given_ones = torch.from_numpy(features), torch.ones(samples, dtype=torch.float64)
    assert float(correlation(*given_ones)) == pytest.approx(float((r**2).mean()), rel=1e-4)
    apart = (r**2)[~np.eye(dimensions, dtype=bool)].mean() * (samples - 1) ** 2 / samples
    assert float(correlation(*given_ones, "code")) == pytest.approx(float(apart), rel=1e-4, abs=1e-9)


def test_values_that_make_no_sense_are_refused():
    """A weight is not negative; there are two ways to normalise."""
    with pytest.raises(InputError, match=r"^beta of feddecorr must be at least 0, not -0\.1$"):
        Method.parse("feddecorr(-0.1)")
    with pytest.raises(InputError, match=r"^variant of feddecorr must be paper or code, not mine$"):
        Method.parse("feddecorr(variant='mine')")

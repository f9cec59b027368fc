"""Distance correlation: by hand on three samples, beside the dcor package, and with padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.metrics.distance_correlation import distance_correlation
from unskew.seeds import generator


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)[:, None]


def test_three_samples_by_hand():
    """x = 0, 1, 3 and f = 0, 1, 1.

    E_x = [0 1 3; 1 0 2; 3 2 0] has the row means 4/3, 1, 5/3 and the mean 4/3, so centred
    [-4/3 0 4/3; 0 -2/3 2/3; 4/3 2/3 -2]; E_f = [0 1 1; 1 0 0; 1 0 0] centred is [-8 4 4; 4 -2 -2; 4 -2 -2] / 9.
    9 nu2(x, x) = 16/9 + 4/9 + 4 + 2 (0 + 16/9 + 4/9) = 32/3; 9 nu2(f, f) = (64 + 4 + 4 + 2 (16 + 16 + 4)) / 81 = 16/9;
    9 nu2(x, f) = 32/27 + 4/27 + 12/27 + 2 (0 + 16/27 - 4/27) = 8/3.
    c = (8/3) / sqrt(32/3 x 16/9) = sqrt(3/8).
    """
    x, f = column(0, 1, 3), column(0, 1, 1)
    assert float(distance_correlation(x, f)) == pytest.approx((3 / 8) ** 0.5, abs=1e-12)
    assert float(distance_correlation(x, f, squared=False)) == pytest.approx((3 / 8) ** 0.25, abs=1e-12)


SAID_BY_DCOR = {
    (5,): 0.7590606134478296,
    (3, 4): 0.8542506470887319,
    (2, 3, 3): 0.8971307058098008,
}
"""dcor.distance_correlation (version 0.7) of the samples below, by their shape. Written down: loading the package
compiles for seconds, and what it says of the same numbers does not change."""


def samples(shape):
    rng = generator(0, "dcor", *shape)
    x, noise = rng.normal(size=(20, *shape)), rng.normal(size=(20, 7))
    return x, np.concatenate([np.abs(x.reshape(20, -1)), noise], 1)


@pytest.mark.parametrize("shape", SAID_BY_DCOR)
def test_it_is_the_square_of_what_dcor_calls_distance_correlation(shape):
    """Eq. 8 is the squared statistic; samples of any shape are flattened."""
    pair, said = [torch.from_numpy(v) for v in samples(shape)], SAID_BY_DCOR[shape]
    assert float(distance_correlation(*pair)) == pytest.approx(said**2, abs=1e-9)
    assert float(distance_correlation(*pair, squared=False)) == pytest.approx(said, abs=1e-9)


@settings(max_examples=30)
@given(st.integers(2, 12), st.integers(0, 5), st.integers(0, 10**6))
def test_padding_changes_neither_value_nor_gradient(samples, padding, seed):
    """Rows of weight 0 count for nothing, whatever they hold."""
    rng = generator(seed, "padding")
    x, f = torch.from_numpy(rng.normal(size=(samples, 3))), torch.from_numpy(rng.normal(size=(samples, 4)))
    plain, padded = f.clone().requires_grad_(), torch.cat([f, torch.full((padding, 4), 1e6)]).requires_grad_()
    weight = torch.cat([torch.ones(samples), torch.zeros(padding)])
    alone = distance_correlation(x, plain)
    among = distance_correlation(torch.cat([x, torch.full((padding, 3), -1e6)]), padded, weight)
    assert 0 <= alone.item() <= 1 + 1e-9
    assert among.item() == pytest.approx(alone.item(), abs=1e-9)
    (one,), (other,) = torch.autograd.grad(alone, plain), torch.autograd.grad(among, padded)
    assert torch.allclose(one, other[:samples], atol=1e-9)
    assert not other[samples:].any()


def test_a_linear_map_keeps_all_and_a_constant_nothing():
    """c is 1 for a scaled copy, 0 for features that do not vary; one sample alone has none; no gradient is NaN."""
    x = torch.from_numpy(generator(0, "linear").normal(size=(9, 5)))
    assert float(distance_correlation(x, 3 * x + 1)) == pytest.approx(1)
    for few in (x[:1], torch.zeros_like(x)):
        f = few.clone().requires_grad_()
        for squared in (True, False):
            c = distance_correlation(x[: len(f)], f, squared=squared)
            assert c.item() == 0
            assert torch.isfinite(torch.autograd.grad(c, f)[0]).all()


def test_equal_samples_leave_the_gradient_finite():
    """The root of a distance has no slope at 0; between equal samples it is taken as 0."""
    x = torch.tensor([[0.0], [0.0], [1.0], [2.0]], dtype=torch.float64)
    f = x.clone().requires_grad_()
    slope = torch.autograd.grad(distance_correlation(x, f * f, squared=False), f)[0]
    assert torch.isfinite(slope).all()


def test_it_can_be_stacked_over_clients():
    """Under vmap every client's value is its own."""
    rng = generator(0, "stacked")
    x, f = torch.from_numpy(rng.normal(size=(3, 6, 4))), torch.from_numpy(rng.normal(size=(3, 6, 2)))
    weight = torch.ones(3, 6, dtype=torch.float64)
    together = torch.func.vmap(distance_correlation)(x, f, weight)
    assert together.tolist() == pytest.approx([float(distance_correlation(x[i], f[i])) for i in range(3)])


@pytest.mark.parametrize("samples", [3, 4, 16])
@pytest.mark.parametrize("squared", [True, False])
def test_its_gradient_is_that_of_finite_differences(samples, squared):
    """Also of the shortest batches that have one."""
    rng = generator(samples, "finite differences")
    x, f = torch.from_numpy(rng.normal(size=(samples, 2, 3))), torch.from_numpy(rng.normal(size=(samples, 4)))
    assert torch.autograd.gradcheck(lambda f: distance_correlation(x, f, squared=squared), f.requires_grad_())


def test_two_samples_are_always_alike_and_pull_at_nothing():
    """Centred, two samples d apart are d/2 [-1 1; 1 -1] whatever they are: c = 1, with no slope."""
    f = column(2, 5).requires_grad_()
    c = distance_correlation(column(0, 1), f)
    assert c.item() == pytest.approx(1)
    assert torch.autograd.grad(c, f)[0].abs().max() < 1e-12


@pytest.mark.parametrize("ones", [1, 5, 16])
def test_in_a_batch_c_counts_dimensions_more_than_it_knows_of_dependence(ones):
    """n = 32 samples that are all sqrt(2) apart: E_x = sqrt(2) (J - I), centred -sqrt(2) C with C = I - J/n.

    Features u of zeros and ones have E_f[i, k] = u_i + u_k - 2 u_i u_k, centred -2 C u u^T C. So
    c = 2 sqrt(2) |Cu|^2 / (sqrt(2) sqrt(n - 1) 2 |Cu|^2) = 1 / sqrt(31), whichever samples have the ones. Features that
    are all equally far apart have the same -C up to a factor, and c = 1, in whatever order they come.
    """
    x, u = torch.eye(32, dtype=torch.float64), column(*[1.0] * ones, *[0.0] * (32 - ones))
    assert float(distance_correlation(x, u)) == pytest.approx(31**-0.5, abs=1e-12)
    assert float(distance_correlation(x, 7 * x.flip(0))) == pytest.approx(1, abs=1e-12)

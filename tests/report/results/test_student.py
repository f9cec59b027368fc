"""Student's t is scipy's."""

from __future__ import annotations

import math

import pytest
from scipy import special

from unskew.report.results.student import chance_beyond, two_sided_limit

FREEDOM = (*range(1, 31), 99, 1000)


@pytest.mark.parametrize("freedom", FREEDOM)
def test_how_likely_a_t_is(freedom: int) -> None:
    """Also far out, where the chance is tiny; nan where there is no t."""
    for t in (0.0, 0.001, 0.3, 1.0, 2.0, 3.5, 10.0, 50.0, 1e4):
        assert chance_beyond(t, freedom) == pytest.approx(2 * special.stdtr(freedom, -t), rel=1e-11)
        assert chance_beyond(-t, freedom) == chance_beyond(t, freedom)
    assert chance_beyond(math.inf, freedom) == 0
    assert math.isnan(chance_beyond(math.nan, freedom))


@pytest.mark.parametrize("freedom", FREEDOM)
def test_which_t_is_so_likely(freedom: int) -> None:
    for confidence in (0.5, 0.9, 0.95, 0.999):
        wanted = special.stdtrit(freedom, 0.5 + confidence / 2)
        assert two_sided_limit(1 - confidence, freedom) == pytest.approx(wanted, rel=1e-11)

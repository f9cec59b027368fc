"""What a few seeds can say, worked by hand.

With two degrees of freedom Student's distribution has a closed form: the two-sided p of t is
1 - t / sqrt(2 + t^2), so the 97.5% quantile solves t / sqrt(2 + t^2) = 0.95: t = sqrt(1.805 / 0.0975) = 4.302653.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.report.results.statistics import estimate, holm, paired

T = math.sqrt(1.805 / 0.0975)
shares = st.floats(0, 1)


def test_an_estimate_is_the_mean_with_students_interval() -> None:
    """0.80, 0.82, 0.84: mean 0.82, sd 0.02, half 4.302653 x 0.02 / sqrt 3 = 0.049683."""
    got = estimate([0.80, 0.82, 0.84])
    assert got.mean == pytest.approx(0.82)
    assert got.sd == pytest.approx(0.02)
    assert got.half == pytest.approx(T * 0.02 / math.sqrt(3))
    assert got.half == pytest.approx(0.049683, abs=1e-6)


def test_one_seed_has_no_interval() -> None:
    """With n = 1 there is nothing to divide by."""
    got = estimate([0.7])
    assert (got.mean, got.sd, got.half, got.span) == (0.7, None, None, (0.7, 0.7))


def test_an_interval_is_drawn_only_as_far_as_a_share_can_lie() -> None:
    """Two seeds at 0.1 and 0.9 span 0.5 +- 5.08, of which 0 to 1 means anything."""
    assert estimate([0.1, 0.9]).within == (0.0, 1.0)


def test_a_paired_difference_is_tested_on_the_seeds_in_common() -> None:
    """0.05, 0.04, 0.06: mean 0.05, sd 0.01, t = 0.05 sqrt 3 / 0.01 = 8.660254, p = 1 - t / sqrt 77 = 0.013072."""
    got = paired({0: 0.85, 1: 0.86, 2: 0.90, 7: 0.1}, {0: 0.80, 1: 0.82, 2: 0.84, 9: 0.9})
    t = 5 * math.sqrt(3)
    assert got.seeds == (0, 1, 2)
    assert got.mean == pytest.approx(0.05)
    assert got.half == pytest.approx(T * 0.01 / math.sqrt(3))
    assert got.p == pytest.approx(1 - t / math.sqrt(2 + t * t))
    assert got.p == pytest.approx(0.013072, abs=1e-6)


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        ({0: 0.5}, {1: 0.4}, "they share no seed"),
        ({0: 0.5, 1: 0.9}, {0: 0.4, 2: 0.9}, "they share one seed; a test needs two"),
        ({0: 0.5, 1: 0.6}, {0: 0.4, 1: 0.5}, "the difference is the same for every seed; nothing to test"),
    ],
)
def test_where_there_is_no_p_value_it_says_why(
    ours: dict[int, float], theirs: dict[int, float], why: str
) -> None:
    """A dash in a table is explained."""
    got = paired(ours, theirs)
    assert got.p is None
    assert got.why == why


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=8))
def test_a_difference_seen_from_the_other_side_has_the_other_sign(pairs: list[tuple[float, float]]) -> None:
    """Swapping the two changes the sign of the mean and nothing else."""
    a, b = ({s: p[i] for s, p in enumerate(pairs)} for i in (0, 1))
    there, back = paired(a, b), paired(b, a)
    assert there.mean is not None
    assert back.mean == pytest.approx(-there.mean, abs=1e-12)
    assert (there.p is None) == (back.p is None)
    if there.p is not None:
        assert 0 <= there.p <= 1
        assert back.p == pytest.approx(there.p)
        assert back.half == pytest.approx(there.half)


def test_holms_correction_multiplies_the_smallest_by_most() -> None:
    """0.01 x 3 = 0.03; 0.03 x 2 = 0.06; 0.04 x 1 is less than 0.06 before it, so 0.06; a gap is not counted."""
    assert holm([0.01, None, 0.04, 0.03]) == [
        pytest.approx(0.03),
        None,
        pytest.approx(0.06),
        pytest.approx(0.06),
    ]


def test_holms_correction_of_one_value_is_that_value() -> None:
    """One comparison needs no correction, and no p-value exceeds 1."""
    assert holm([0.02]) == [0.02]
    assert holm([0.7, 0.8]) == [1.0, 1.0]

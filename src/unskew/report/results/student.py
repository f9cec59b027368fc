"""Student's t-distribution: how likely a t is, and which t is so likely.

scipy has both, but to load its functions takes a sixth of a second, as long as to load what draws the charts.
"""

from __future__ import annotations

import functools
import math

FINE = 1e-16
"""Terms that change less than this of a fraction change nothing."""


def chance_beyond(t: float, freedom: int) -> float:
    """The chance of a t at least this far from 0, on either side: the p-value of a two-sided test."""
    if math.isnan(t):
        return math.nan
    near = freedom / (freedom + t * t)
    far = 1.0 if math.isinf(t) else t * t / (freedom + t * t)  # 1 - near, exact also where that is tiny
    return _beta_share(near, far, freedom / 2, 0.5)


@functools.cache
def two_sided_limit(chance: float, freedom: int) -> float:
    """The t beyond which, on either side, lies this chance."""
    low, high = 0.0, 1.0
    while chance_beyond(high, freedom) > chance:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if chance_beyond(middle, freedom) > chance else (low, middle)
    return high


def _beta_share(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), where ``rest`` is 1 - x.

    By its continued fraction (DLMF 8.17.22), on the side on which that is short.
    """
    if x <= 0 or rest <= 0:
        return float(rest <= 0)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta_share(rest, x, b, a)
    logs = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    # from the front, as a ratio of two recurrences that are scaled down together
    above, under, above_before, under_before = 1.0, 1.0, 1.0, 0.0
    value = 0.0
    for m in range(1, 10_000):
        k = m // 2
        if m % 2:
            term = -(a + k) * (a + b + k) * x / ((a + 2 * k) * (a + 2 * k + 1))
        else:
            term = k * (b - k) * x / ((a + 2 * k - 1) * (a + 2 * k))
        above, above_before = above + term * above_before, above
        under, under_before = under + term * under_before, under
        scale = abs(under) or 1.0
        above, above_before, under, under_before = (
            number / scale for number in (above, above_before, under, under_before)
        )
        value, last = under / above, value
        if abs(value - last) <= FINE * abs(value):
            break
    return math.exp(logs) / a * value

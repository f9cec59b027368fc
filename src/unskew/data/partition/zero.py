"""Where a function passes 0: Brent's method (Algorithms for Minimization without Derivatives, 1973, chapter 4).

scipy has it, too; but to load scipy's optimisers takes a fifth of a second, more than a search does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable


def find_zero(
    function: Callable[[float], float], low: float, high: float, tolerance: float, most: int
) -> float:
    """A place between ``low`` and ``high``, where signs differ, at which the function is 0 or passes it within the
    tolerance; after ``most`` steps the best place so far."""
    before, at_before = low, function(low)
    here, at_here = high, function(high)
    if not at_before:
        return before
    other, at_other = before, at_before  # on the other side of 0
    step = last_step = here - before
    for _ in range(most):
        if at_before and at_here and (at_before < 0) != (at_here < 0):
            other, at_other = before, at_before
            step = last_step = here - before
        if abs(at_other) < abs(at_here):  # here is always the better end
            before, here, other = here, other, here
            at_before, at_here, at_other = at_here, at_other, at_here
        least = (tolerance + 4 * sys.float_info.epsilon * abs(here)) / 2
        half = (other - here) / 2
        if not at_here or abs(half) < least:
            return here
        tried = None
        if abs(last_step) > least and abs(at_here) < abs(at_before):
            tried = _interpolated((here, at_here), (before, at_before), (other, at_other))
        if tried is not None and 2 * abs(tried) < min(abs(last_step), 3 * abs(half) - least):
            last_step, step = step, tried
        else:
            last_step = step = half
        before, at_before = here, at_here
        here += step if abs(step) > least else (least if half > 0 else -least)
        at_here = function(here)
    return here


def _interpolated(
    here: tuple[float, float], before: tuple[float, float], other: tuple[float, float]
) -> float:
    """How far from here a curve through the points that are known is 0: a line through two, else a parabola."""
    (x, y), (x1, y1), (x2, y2) = here, before, other
    if x1 == x2:
        return -y * (x - x1) / (y - y1)
    first, second = (y1 - y) / (x1 - x), (y2 - y) / (x2 - x)
    return -y * (y2 * second - y1 * first) / (second * first * (y2 - y1))

"""Brent's method goes the steps that scipy's goes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import brentq

from unskew.data.partition.zero import find_zero


@pytest.mark.parametrize("fine", [0.0, 1e-3])
@pytest.mark.parametrize("most", [5, 15, 100])
def test_every_step_is_scipys(fine: float, most: int) -> None:
    """Of smooth functions and of such with steps, where what is small counts as 0 and where it does not."""
    rng, tried = np.random.default_rng(0), 0
    for _ in range(300):
        a, b, c = (float(number) for number in rng.normal(size=3))
        low, high = sorted(float(number) for number in rng.normal(size=2) * 3)
        every: tuple[Callable[[float], float], ...] = (
            lambda x, a=a, b=b, c=c: math.tanh(a * x + b) + 0.1 * c,
            lambda x, a=a, b=b, c=c: a * x**3 + b * x * x + c,
            lambda x, a=a, b=b, c=c: round(a * x + b * math.sin(5 * x) + c, 1),
        )
        for function in every:
            if function(low) * function(high) >= 0:
                continue
            steps: tuple[list[float], list[float]] = ([], [])

            def seen(x: float, at: int, function=function, steps=steps) -> float:
                steps[at].append(x)
                value = function(x)
                return 0.0 if abs(value) < fine else value

            theirs = brentq(lambda x: seen(x, 0), low, high, xtol=1e-6, maxiter=most, disp=False)
            assert find_zero(lambda x: seen(x, 1), low, high, 1e-6, most) == theirs
            assert steps[0] == steps[1]
            tried += 1
    assert tried > 200

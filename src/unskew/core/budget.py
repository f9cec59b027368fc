"""How a budget becomes whole steps: one rule for epochs, shares of a visit and samples.

The nearest number of steps is taken, of two equally near ones the larger; and at least one. So ``--epochs 2.25`` of
three batches (6.75) is 7 steps, and of two (4.5) 5. The shares of a visit that legs spend (``sem``, ``phase_shift(mode=
epoch)``) are rounded where they begin and where they end, so that they make the whole together. A pooled client, which
trains in every round, rounds what it has spent since the first: ``centralized`` is never more than half a batch off.

Nothing here needs torch.
"""

from __future__ import annotations

import math

import numpy as np

from unskew.arrays import Array

HALF = 0.5 + 1e-9
"""What is added before the fraction is cut off: a half rounds up, also where floating point makes it a little less."""


def nearest(steps: float) -> int:
    """The nearest whole number of steps."""
    return math.floor(steps + HALF)


def nearest_each(steps: Array) -> Array:
    """The same of each of these numbers."""
    return np.floor(steps + HALF).astype(np.int64)


def in_round(t: int, steps: float) -> int:
    """The steps of round ``t``: over many rounds they are ``steps`` on average, since each round corrects the last."""
    return nearest((t + 1) * steps) - nearest(t * steps)

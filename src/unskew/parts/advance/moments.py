"""What the adaptive server optimisers of Reddi et al. (ICLR 2021, algorithm 2) have in common: two moments.

m <- beta1 m + (1 - beta1) Delta; then v, where the three differ; then w <- w + eta m / (sqrt(v) + tau). m starts at 0
and v at tau^2, the least that the paper allows. Nothing corrects their bias, as in the paper. Both are kept in the
model's precision and computed in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from unskew.core.types import Memory, Tree, moved_by
from unskew.errors import InputError
from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

    from unskew.core.net import Net


def first_moments(net: Net, tau: float) -> Memory:
    """Both moments before round 0."""
    m = {k: torch.zeros_like(net.initial[k]) for k in net.trainable}
    return {"m": m, "v": {k: torch.full_like(v, tau**2) for k, v in m.items()}}


def step_by_moments(
    params: Tree,
    change: Tree,
    memory: Memory,
    second: Callable[[Tensor, Tensor], Tensor],
    *,
    eta: float,
    beta1: float,
    tau: float,
) -> tuple[Tree, Memory]:
    """The next parameters and moments; ``second(v, square of the change)`` is the second moment, in float64."""
    m, v, step = {}, {}, {}
    for k, delta in change.items():
        mean = beta1 * memory["m"][k].double() + (1 - beta1) * delta
        spread = second(memory["v"][k].double(), delta.square())
        step[k] = eta * mean / (spread.sqrt() + tau)
        m[k], v[k] = mean.to(params[k].dtype), spread.to(params[k].dtype)
    return moved_by(params, step), {"m": m, "v": v}


def check_moments(part: str, *, eta: float, tau: float, **shares: float) -> None:
    """Refuse values that make no step, or a moment that never fades."""
    for which, share in shares.items():
        if not 0 <= share < 1:
            raise InputError(f"{which} of {part} must be at least 0 and below 1, not {share}")
    for which, positive in (("eta", eta), ("tau", tau)):
        if positive <= 0:
            raise InputError(f"{which} of {part} must be above 0, not {positive}")

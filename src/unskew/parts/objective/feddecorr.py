"""Features kept from collapsing into few dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from unskew.core.slots import Needs, Objective, Step
from unskew.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

EPS = 1e-8
"""Added to a variance before its root, as the authors' code does: a feature that never varies counts as 0."""


@dataclass(frozen=True)
class FedDecorr(Objective):
    """Punishes correlation between dimensions of the features (Shi et al., ICLR 2023).

    A client minimises CE + beta / d^2 ||K||_F^2, with K the correlation matrix of the batch's d penultimate features:
    where a few classes fill only a few directions of feature space, it asks for the others.

    beta: 0.1, as in the paper and in FLea's code.
    variant: ``paper`` is the formula above. ``code`` is bytedance/FedDecorr's, which FLea adapts: z-scores by the
    unbiased variance, their products summed and not averaged over the N samples, the diagonal left out, the mean
    square divided by N. That is about N times as large (N the batch), so the same beta acts about N times as
    strongly. A batch of one sample gives 0 in both.
    """

    name: ClassVar[str] = "feddecorr"
    paper: ClassVar[str] = "Shi et al., ICLR 2023"
    neutral: ClassVar[str | None] = "feddecorr(beta=0)"
    needs: ClassVar[Needs] = Needs(features=True, global_model=False)

    beta: float = 0.1
    variant: Literal["paper", "code"] = "paper"

    def __post_init__(self) -> None:
        if self.beta < 0:
            raise InputError(f"beta of feddecorr must be at least 0, not {self.beta}")

    def penalty(self, step: Step) -> Tensor | float:
        if self.beta == 0:
            return 0.0
        return self.beta * correlation(step.features(), step.batch.weight, self.variant)


def correlation(features: Tensor, weight: Tensor, variant: str = "paper") -> Tensor:
    """The mean squared correlation of features [N, d], over the samples that count."""
    d, n = features.shape[1], weight.sum().clamp_min(1)
    mean = (features * weight[:, None]).sum(0) / n
    centred = (features - mean) * weight[:, None]
    over = n if variant == "paper" else (n - 1).clamp_min(1)
    scores = centred / (centred.square().sum(0) / over + EPS).sqrt()
    # the N x N products have the same squares in sum as the d x d ones, and a batch is smaller than a feature
    products = scores @ scores.T if len(features) < d else scores.T @ scores
    squares = products.square().sum()
    if variant == "paper":
        return squares / (n * d).square()
    diagonal = scores.square().sum(0).square().sum()
    return (squares - diagonal) / (d * max(1, d - 1)) / n

"""Logistic regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class Linear(Architecture):
    """Logistic regression on the flattened sample.

    Seol & Kim's model for MNIST (section 5.1, case 4). Its penultimate feature is the sample itself.
    """

    name: ClassVar[str] = "linear"
    paper: ClassVar[str] = "Seol & Kim, 5.1"
    native: ClassVar[tuple[int, ...]] = (1, 28, 28)
    size: ClassVar[int] = 7_850

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        return nn.Stages({"flatten": nn.Flatten(), "out": nn.Linear(math.prod(shape), classes)})

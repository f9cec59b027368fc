"""A multi-layer perceptron."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class MLP(Architecture):
    """Dense layers with ReLU on the flattened sample.

    With ``hidden=[200, 200]`` it is the 2NN of McMahan et al. (AISTATS 2017, section 3: 199,210 parameters on
    MNIST); with one layer, the model of this library's standard speed job C.
    """

    name: ClassVar[str] = "mlp"
    paper: ClassVar[str] = "McMahan et al. 2017, 3"
    native: ClassVar[tuple[int, ...]] = (1, 28, 28)
    size: ClassVar[int] = 159_010

    hidden: tuple[int, ...] = (200,)  # units of each hidden layer

    def __post_init__(self) -> None:
        if not self.hidden or min(self.hidden) < 1:
            raise InputError(f"hidden of mlp is a list of layer sizes such as [200], not {list(self.hidden)}")

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        stages: dict[str, nn.Layer] = {}
        width = math.prod(shape)
        for at, units in enumerate(self.hidden, start=1):
            dense = (nn.Linear(width, units), nn.ReLU())
            stages[f"dense{at}"] = nn.Sequential(*([nn.Flatten()] if at == 1 else []), *dense)
            width = units
        return nn.Stages({**stages, "out": nn.Linear(width, classes)})

"""FedNova's VGG-11 for small images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from unskew.errors import InputError
from unskew.models.architecture import Architecture
from unskew.models.layers import Dropout
from unskew.models.split import Stages

FILTERS = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # of five stages, each pooled by 2
DENSE = 512


def _conv(inputs: int, outputs: int) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1)
    nn.init.normal_(conv.weight, std=math.sqrt(2 / (9 * outputs)))
    nn.init.zeros_(conv.bias)  # type: ignore[arg-type]  # there is one by default
    return [conv, nn.ReLU()]


@dataclass(frozen=True)
class VGG11(Architecture):
    """Eight 3x3 convolutions, 64 to 512 filters, in five stages max-pooled by 2, and two dense layers of 512.

    The network of FedNova's CIFAR-10 table (Simonyan and Zisserman, ICLR 2015, configuration A, without batch norm).
    The paper names it only; the dense layers, dropout before each of them and how the filters start (normal, of
    variance 2 / (9 x filters); biases 0) are those of the authors' code (JYWa/FedNova).
    """

    name: ClassVar[str] = "vgg11"
    paper: ClassVar[str] = "FedNova, 5"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 9_750_922

    dropout: float = 0.5  # share of the features dropped before each dense layer

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout of vgg11 is a share from 0 to below 1, not {self.dropout}")

    def make(self, shape: tuple[int, ...], classes: int) -> Stages:
        inputs, height, width = self.image(shape, least=32)
        stages: dict[str, nn.Module] = {}
        for number, filters in enumerate(FILTERS, 1):
            layers: list[nn.Module] = []
            for outputs in filters:
                layers += _conv(inputs, outputs)
                inputs = outputs
            stages[f"stage{number}"] = nn.Sequential(*layers, nn.MaxPool2d(2))
        left = inputs * (height // 32) * (width // 32)
        stages["dense1"] = nn.Sequential(
            nn.Flatten(), Dropout(self.dropout), nn.Linear(left, DENSE), nn.ReLU()
        )
        stages["dense2"] = nn.Sequential(Dropout(self.dropout), nn.Linear(DENSE, DENSE), nn.ReLU())
        return Stages(stages | {"out": nn.Linear(DENSE, classes)})

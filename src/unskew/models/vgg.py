"""FedNova's VGG-11 for small images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.models import drawing as nn
from unskew.models.architecture import Architecture

FILTERS = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # of five stages, each pooled by 2
DENSE = 512


@dataclass(frozen=True)
class VGG11(Architecture):
    """Eight 3x3 convolutions, 64 to 512 filters, in five stages max-pooled by 2, and two dense layers of 512.

    The network of FedNova's CIFAR-10 table (Simonyan and Zisserman, ICLR 2015, configuration A, without batch norm).
    The paper names it only; the dense layers, dropout before each of them and how the filters start (normal, of
    variance 2 / (9 x filters); biases 0) are those of the authors' code (JYWa/FedNova).
    """

    name: ClassVar[str] = "vgg11"
    paper: ClassVar[str] = "FedNova, table 1"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 9_750_922

    dropout: float = 0.5  # share of the features dropped before each dense layer

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout of vgg11 is a share from 0 to below 1, not {self.dropout}")

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        inputs, height, width = self.image(shape, least=32)
        stages: dict[str, nn.Layer] = {}
        for number, filters in enumerate(FILTERS, 1):
            layers: list[nn.Layer] = []
            for outputs in filters:
                start = nn.Kaiming(fan="fan_out")
                layers += [nn.Conv2d(inputs, outputs, 3, padding=1, start=start), nn.ReLU()]
                inputs = outputs
            stages[f"stage{number}"] = nn.Sequential(*layers, nn.MaxPool2d(2))
        left = inputs * (height // 32) * (width // 32)
        stages["dense1"] = nn.Sequential(
            nn.Flatten(), nn.Dropout(self.dropout), nn.Linear(left, DENSE), nn.ReLU()
        )
        stages["dense2"] = nn.Sequential(nn.Dropout(self.dropout), nn.Linear(DENSE, DENSE), nn.ReLU())
        return nn.Stages(stages | {"out": nn.Linear(DENSE, classes)})

"""MOON's CNN, with the projection head that its contrast is measured on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.models import drawing as nn
from unskew.models.architecture import Architecture
from unskew.models.lenet import lenet_body


@dataclass(frozen=True)
class MoonCNN(Architecture):
    """Two 5x5 convolutions without padding (6, 16), dense layers of 120 and 84, and a projection of two layers.

    The network of MOON's CIFAR-10 experiments: a base encoder, a projection head that ends in ``project`` dimensions,
    the features that are contrasted, and an output layer on top of them.
    """

    name: ClassVar[str] = "moon_cnn"
    paper: ClassVar[str] = "MOON, 4.1"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 92_626

    project: int = 256

    def __post_init__(self) -> None:
        if self.project < 1:
            raise InputError(f"project of moon_cnn is a number of dimensions above 0, not {self.project}")

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        layers: dict[str, nn.Layer] = lenet_body(*self.image(shape, least=16))
        layers["projection"] = nn.Sequential(nn.Linear(84, 84), nn.ReLU(), nn.Linear(84, self.project))
        return nn.Stages(layers | {"out": nn.Linear(self.project, classes)})

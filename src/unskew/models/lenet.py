"""The LeNet of NIID-Bench."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class LeNet(Architecture):
    """Two 5x5 convolutions without padding (6, 16), each max-pooled by 2, and dense layers of 120 and 84.

    The network of NIID-Bench's image experiments (Li et al., ICDE 2022, section 5), after LeCun et al., 1998: on MNIST
    and Fashion-MNIST as here, on CIFAR-10 with three channels of 32 x 32 (62,006 weights).
    """

    name: ClassVar[str] = "lenet"
    paper: ClassVar[str] = "NIID-Bench, 5"
    native: ClassVar[tuple[int, ...]] = (1, 28, 28)
    size: ClassVar[int] = 44_426

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        return nn.Stages(lenet_body(*self.image(shape, least=16)) | {"out": nn.Linear(84, classes)})


def lenet_body(channels: int, height: int, width: int) -> dict[str, nn.Layer]:
    """Everything below the output: two convolutions and two dense layers, the last of 84."""
    left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    return {
        "conv1": nn.Sequential(nn.Conv2d(channels, 6, 5), nn.ReLU(), nn.MaxPool2d(2)),
        "conv2": nn.Sequential(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        "dense1": nn.Sequential(nn.Flatten(), nn.Linear(16 * left[0] * left[1], 120), nn.ReLU()),
        "dense2": nn.Sequential(nn.Linear(120, 84), nn.ReLU()),
    }

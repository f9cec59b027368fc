"""The library's own small CNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class SmallCNN(Architecture):
    """Two 3x3 convolutions (32, 64), each with ReLU and 2x2 max pooling, and a dense layer of 128.

    Of no paper: the model of this library's standard speed job A, and a fair start on small images.
    """

    name: ClassVar[str] = "small_cnn"
    paper: ClassVar[str] = ""
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 545_098

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=4)
        return nn.Stages(
            {
                "conv1": nn.Sequential(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
                "conv2": nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
                "dense": nn.Sequential(
                    nn.Flatten(), nn.Linear(64 * (height // 4) * (width // 4), 128), nn.ReLU()
                ),
                "out": nn.Linear(128, classes),
            }
        )

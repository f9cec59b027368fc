"""SEM's ResNet-9."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


def _conv(inputs: int, outputs: int, *then: nn.Layer) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm(outputs), nn.ReLU(), *then)


def _residual(channels: int) -> nn.Residual:
    return nn.Residual(_conv(channels, channels), _conv(channels, channels))


@dataclass(frozen=True)
class ResNet9(Architecture):
    """Eight 3x3 convolutions with batch norm and ReLU, two of the pairs residual, and the classes.

    SEM's model for CIFAR-10 and CIFAR-100. The paper names it only; layers and widths (32, 64, a residual
    pair, 128, 256, a residual pair, max pooling, dropout of 0.2) are those of the first author's code
    (hapqhust/sparseFL). The last pooling takes all that is left of the image, 4x4 for CIFAR.
    """

    name: ClassVar[str] = "resnet9"
    paper: ClassVar[str] = "SEM, IV-A"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 1_647_242

    dropout: float = 0.2  # share of the features dropped before the classes

    def __post_init__(self) -> None:
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout of resnet9 is a share from 0 to below 1, not {self.dropout}")

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=8)
        return nn.Stages(
            {
                "conv1": _conv(channels, 32),
                "conv2": _conv(32, 64, nn.MaxPool2d(2)),
                "residual1": _residual(64),
                "conv3": _conv(64, 128, nn.MaxPool2d(2)),
                "conv4": _conv(128, 256, nn.MaxPool2d(2)),
                "residual2": _residual(256),
                "pool": nn.Sequential(
                    nn.MaxPool2d((height // 8, width // 8)), nn.Flatten(), nn.Dropout(self.dropout)
                ),
                "out": nn.Linear(256, classes),
            }
        )

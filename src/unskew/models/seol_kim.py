"""Seol & Kim's CNN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class SeolKimCNN(Architecture):
    """Two 5x5 convolutions (64, 128), each with ReLU and 2x2 max pooling, and three dense layers.

    Section 5.1 gives filters and layers only. Taken here, as in the classic CIFAR-10 network that it
    resembles: "same" padding, one pooling after each convolution, and 384 and 192 units before the classes.
    The softmax that the paper lists last is part of the loss.
    """

    name: ClassVar[str] = "seol_kim_cnn"
    paper: ClassVar[str] = "Seol & Kim, 5.1"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 3_431_754

    hidden: tuple[int, ...] = (384, 192)  # units of the two hidden dense layers

    def __post_init__(self) -> None:
        if len(self.hidden) != 2 or min(self.hidden) < 1:
            raise InputError(
                "hidden of seol_kim_cnn is the sizes of two dense layers such as [384, 192], "
                f"not {list(self.hidden)}"
            )

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=4)
        first, second = self.hidden
        return nn.Stages(
            {
                "conv1": nn.Sequential(nn.Conv2d(channels, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
                "conv2": nn.Sequential(nn.Conv2d(64, 128, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
                "dense1": nn.Sequential(
                    nn.Flatten(), nn.Linear(128 * (height // 4) * (width // 4), first), nn.ReLU()
                ),
                "dense2": nn.Sequential(nn.Linear(first, second), nn.ReLU()),
                "out": nn.Linear(second, classes),
            }
        )

"""FLea's HARNet for windows of sensor readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from unskew.errors import InputError
from unskew.expression import AtMost
from unskew.models import drawing as nn
from unskew.models.architecture import Architecture

LEAST = 64
"""The shortest window of which the fourth convolution still has something to see."""


def _block(inputs: int, outputs: int, length: int, stride: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, (length, 1), (stride, 1), padding=1)
    return nn.Sequential(conv, nn.BatchNorm(outputs), nn.ReLU())


@dataclass(frozen=True)
class HARNet(Architecture):
    """Four convolutions along time (64, 128, 256, 256) with batch norm and ReLU, flattened, and the classes.

    FLea's model for UCI-HAR with three sensors. The paper says four convolutions; widths, lengths (3, then 6),
    strides (3, then 2) and a padding of 1 on all sides, which also adds two empty sensors a layer, are those
    of the authors' code (XTxiatong/FLea). ``width`` is the first layer's; the others keep their ratios. FLea cuts it
    at ``conv2``, where a sample is 128x20x7.
    """

    name: ClassVar[str] = "harnet"
    paper: ClassVar[str] = "FLea, C.2"
    native: ClassVar[tuple[int, ...]] = (1, 128, 3)
    classes: ClassVar[int] = 6
    size: ClassVar[int] = 691_974

    width: Annotated[int, AtMost(4096)] = 64

    def __post_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"width of harnet must be at least 1 filter, not {self.width}")

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        given = "x".join(map(str, shape))
        if len(shape) != 3:
            raise InputError(
                f"harnet takes windows (1 x time x sensors), not samples of shape {given}; use mlp or linear, or "
                "reshape the data"
            )
        channels, time, sensors = shape
        if time < LEAST:
            raise InputError(
                f"harnet needs windows of at least {LEAST} readings, not {time} (samples are {given}, which it "
                "reads as 1 x time x sensors); use mlp or linear"
            )
        time = (time - 1) // 3 + 1
        for _ in range(3):
            time = (time - 4) // 2 + 1
        return nn.Stages(
            {
                "conv1": _block(channels, self.width, 3, 3),
                "conv2": _block(self.width, 2 * self.width, 6, 2),
                "conv3": _block(2 * self.width, 4 * self.width, 6, 2),
                "conv4": _block(4 * self.width, 4 * self.width, 6, 2),
                "flatten": nn.Flatten(),
                "out": nn.Linear(4 * self.width * time * (sensors + 8), classes),
            }
        )

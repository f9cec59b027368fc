"""FLea's AudioNet for spectrograms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


def _block(inputs: int, outputs: int, side: int) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, side, stride=2, padding=side // 2, start=nn.Kaiming(0.1))
    return nn.Sequential(conv, nn.ReLU(), nn.BatchNorm(outputs))


@dataclass(frozen=True)
class AudioNet(Architecture):
    """Four convolutions of stride 2 (8, 16, 32, 64), each with ReLU and then batch norm, pooled to 64 features.

    FLea's model for UrbanSound8K. Appendix C.2 gives the order of the layers; widths, kernels (5x5, then 3x3)
    and how the filters start (Kaiming, a = 0.1, biases 0) are those of the authors' code (XTxiatong/FLea). FLea
    cuts it at ``conv2``. Mono spectrograms have 200 parameters fewer.
    """

    name: ClassVar[str] = "audionet"
    paper: ClassVar[str] = "FLea, C.2"
    native: ClassVar[tuple[int, ...]] = (2, 64, 344)
    size: ClassVar[int] = 25_602

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, _, _ = self.image(shape, least=4)
        return nn.Stages(
            {
                "conv1": _block(channels, 8, 5),
                "conv2": _block(8, 16, 3),
                "conv3": _block(16, 32, 3),
                "conv4": _block(32, 64, 3),
                "pool": nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
                "out": nn.Linear(64, classes),
            }
        )

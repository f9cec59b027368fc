"""FLea's MobileNetV2 for small images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture

STAGES = (  # expansion, channels, blocks, stride of the first of them
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, LAST = 32, 1280


def _conv(inputs: int, outputs: int, side: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, side, stride, side // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm(outputs))


def _block(inputs: int, outputs: int, expansion: int, stride: int) -> nn.InvertedResidual:
    """An inverted residual.

    Unlike the original, a block of stride 1 that changes the number of channels has a shortcut too, a 1x1
    convolution with batch norm.
    """
    inner, passes = expansion * inputs, stride == 1
    return nn.InvertedResidual(
        expand=_conv(inputs, inner),
        filter=_conv(inner, inner, 3, stride, groups=inner),
        project=_conv(inner, outputs),
        passes=passes,
        shortcut=_conv(inputs, outputs) if passes and inputs != outputs else None,
    )


@dataclass(frozen=True)
class MobileNetV2(Architecture):
    """Seventeen inverted residuals with batch norm, 16 to 320 channels, then 1280 features and the classes.

    FLea's model for CIFAR-10 (Sandler et al., CVPR 2018, as the authors' code has it, XTxiatong/FLea): fitted
    to 32x32 by stride 1 in the stem and in the second stage, and with ReLU for ReLU6. FLea cuts it at
    ``block0``, where a sample is 16x32x32. The pooling takes all that is left of the image, 4x4 for CIFAR.
    """

    name: ClassVar[str] = "mobilenet_v2"
    paper: ClassVar[str] = "FLea, C.2"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 2_296_922

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, _, _ = self.image(shape, least=4)
        stages: dict[str, nn.Layer] = {"stem": nn.Sequential(_conv(channels, STEM, 3), nn.ReLU())}
        inputs = STEM
        for expansion, outputs, blocks, stride in STAGES:
            for first in range(blocks):
                step = stride if first == 0 else 1
                stages[f"block{len(stages) - 1}"] = _block(inputs, outputs, expansion, step)
                inputs = outputs
        pool = nn.Sequential(_conv(inputs, LAST), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        return nn.Stages({**stages, "pool": pool, "out": nn.Linear(LAST, classes)})

"""The thesis's three CNNs (appendix A).

The appendix lists layers, not how they are joined. The joints here are those of the toolkit that the thesis
was run with (FLTK, `fltk/nets`), which differ from what one would guess: see each class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class ThesisMnist(Architecture):
    """Two 5x5 convolutions without padding (10, 20), 2x2 max pooling, channel dropout, a dense layer of 50.

    Listing 1. As in the toolkit, pooling comes before ReLU, and a second dropout of one half follows the
    dense layer. Also the two-convolution network of this library's standard job B.
    """

    name: ClassVar[str] = "thesis_mnist"
    paper: ClassVar[str] = "the thesis, appendix A"
    native: ClassVar[tuple[int, ...]] = (1, 28, 28)
    size: ClassVar[int] = 21_840

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=16)
        left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
        return nn.Stages(
            {
                "conv1": nn.Sequential(nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
                "conv2": nn.Sequential(
                    nn.Conv2d(10, 20, 5), nn.Dropout(0.5, channels=True), nn.MaxPool2d(2), nn.ReLU()
                ),
                "fc1": nn.Sequential(
                    nn.Flatten(), nn.Linear(20 * left[0] * left[1], 50), nn.ReLU(), nn.Dropout(0.5)
                ),
                "fc2": nn.Linear(50, classes),
            }
        )


@dataclass(frozen=True)
class ThesisFashion(Architecture):
    """Two 5x5 convolutions (16, 32) with batch norm, ReLU and 2x2 max pooling, and the classes.

    Listing 2; the ReLU that it repeats changes nothing after the first.
    """

    name: ClassVar[str] = "thesis_fashion"
    paper: ClassVar[str] = "the thesis, appendix A"
    native: ClassVar[tuple[int, ...]] = (1, 28, 28)
    size: ClassVar[int] = 29_034

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=4)

        def block(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 5, padding=2), nn.BatchNorm(outputs), nn.ReLU(), nn.MaxPool2d(2)
            )

        return nn.Stages(
            {
                "layer1": block(channels, 16),
                "layer2": block(16, 32),
                "flatten": nn.Flatten(),
                "fc": nn.Linear(32 * (height // 4) * (width // 4), classes),
            }
        )


@dataclass(frozen=True)
class ThesisCifar(Architecture):
    """Six 3x3 convolutions (32, 32, 64, 64, 128, 128) with batch norm, three poolings, a dense layer of 128.

    Listing 3. As in the toolkit, ReLU comes before batch norm and none follows the dense layer. The toolkit
    also ends in a softmax before the cross-entropy, which takes another: ``double_softmax`` repeats that.
    """

    name: ClassVar[str] = "thesis_cifar"
    paper: ClassVar[str] = "the thesis, appendix A"
    native: ClassVar[tuple[int, ...]] = (3, 32, 32)
    size: ClassVar[int] = 551_466

    double_softmax: bool = False  # end in a softmax although the loss takes one

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=8)

        def block(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(
                *(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.BatchNorm(outputs)),
                *(nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(), nn.BatchNorm(outputs)),
                nn.MaxPool2d(2),
            )

        stages: dict[str, nn.Layer] = {
            "block1": block(channels, 32),
            "block2": block(32, 64),
            "block3": block(64, 128),
            "fc1": nn.Sequential(nn.Flatten(), nn.Linear(128 * (height // 8) * (width // 8), 128)),
            "fc2": nn.Linear(128, classes),
        }
        if self.double_softmax:
            return nn.Stages({**stages, "softmax": nn.Softmax()}, tail=2)
        return nn.Stages(stages)

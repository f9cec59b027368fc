"""The CNN of the paper that named federated learning, under the names of the papers that used it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.models import drawing as nn
from unskew.models.architecture import Architecture


@dataclass(frozen=True)
class McMahanCNN(Architecture):
    """Two 5x5 convolutions (32, 64), each with ReLU and 2x2 max pooling, and a dense layer of 512.

    McMahan et al., AISTATS 2017. Section 3 gives 1,663,370 parameters on MNIST, which "same" padding yields.
    """

    name: ClassVar[str] = "mcmahan_cnn"
    paper: ClassVar[str] = "McMahan et al. 2017, 3"
    native: ClassVar[tuple[int, ...]] = (1, 28, 28)
    size: ClassVar[int] = 1_663_370

    def draw(self, shape: tuple[int, ...], classes: int) -> nn.Stages:
        channels, height, width = self.image(shape, least=4)
        return nn.Stages(
            {
                "conv1": nn.Sequential(nn.Conv2d(channels, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
                "conv2": nn.Sequential(nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
                "dense": nn.Sequential(
                    nn.Flatten(), nn.Linear(64 * (height // 4) * (width // 4), 512), nn.ReLU()
                ),
                "out": nn.Linear(512, classes),
            }
        )


@dataclass(frozen=True)
class SemCNN(McMahanCNN):
    """SEM's model for MNIST: the McMahan CNN.

    Section IV-A only says "simple CNNs [2]"; the first author's code (hapqhust/sparseFL) has these layers.
    """

    name: ClassVar[str] = "sem_cnn"
    paper: ClassVar[str] = "SEM, IV-A"


@dataclass(frozen=True)
class DacaCNN(McMahanCNN):
    """DACA's model for MNIST: the McMahan CNN.

    Section IV-A says two 5x5 convolutions and two dense layers without their widths; the caption of figure 2
    says the architecture is that of McMahan et al.
    """

    name: ClassVar[str] = "daca_cnn"
    paper: ClassVar[str] = "DACA, IV-A"

"""What every adapter needs: the line to ``unskew bench``, the made-up data, and the models in plain torch.

Adapters run in their peer's own environment, where unskew is not installed. They read lines of JSON from stdin: the
job first, then the clients of one round after the other; and answer on stdout. Whatever a library prints goes to
stderr. Data is handed to a peer as normalised float32 tensors, which spares it the conversion that we do at every
step. How many threads torch uses is said with every round, so that the number that suits a peer can be found.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Work:
    """The job as it was sent."""

    name: str
    model: str
    shape: tuple[int, ...]
    clients: int
    samples: int
    cohort: int
    epochs: int
    batch: int
    lr: float
    seed: int
    classes: int
    sizes: tuple[int, ...]
    workers: int

    def module(self) -> nn.Module:
        torch.manual_seed(self.seed)
        return MODELS[self.model](self.shape, self.classes)

    @cached_property
    def data(self) -> list[tuple[Tensor, Tensor]]:
        """Every client's samples and labels."""
        rng = torch.Generator().manual_seed(self.seed)
        n = sum(self.sizes)
        x = torch.randn(n, *self.shape, generator=rng)
        y = torch.randint(0, self.classes, (n,), generator=rng)
        sizes = list(self.sizes)
        return list(zip(x.split(sizes), y.split(sizes), strict=True))

    def trained(self, clients: list[int]) -> int:
        """The samples that a round of these clients trains on, each counted as often as it is."""
        return self.epochs * sum(self.sizes[c] for c in clients)


class Line:
    """The line to ``unskew bench``."""

    def __init__(self) -> None:
        self.out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # what libraries print must not get in between
        with contextlib.suppress(OSError, AttributeError):
            set_death_signal = (
                1  # Linux: we are stopped between rounds, and must not stay so if bench is killed
            )
            ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)
        sent = json.loads(sys.stdin.readline())
        self.work = Work(**sent | {"shape": tuple(sent["shape"]), "sizes": tuple(sent["sizes"])})

    def ready(self, about: str, threaded: bool = True) -> None:
        """Prepared; ``threaded`` if clients are trained in this process, by torch's threads."""
        self._say(ready=about, threaded=threaded)

    def rounds(self) -> Iterator[list[int]]:
        """The clients of each round, until there is nobody left to ask."""
        for line in sys.stdin:
            asked = json.loads(line)
            torch.set_num_threads(asked["threads"])
            yield asked["clients"]

    def played(self, seconds: float, samples: int) -> None:
        self._say(seconds=seconds, samples=samples)

    def _say(self, **answer: Any) -> None:
        print(json.dumps(answer), file=self.out, flush=True)


@lru_cache(maxsize=1)
def kept(text: str) -> tuple[Work, nn.Module]:
    """A job and its model, made once in each process that trains."""
    sent = json.loads(text)
    work = Work(**sent | {"shape": tuple(sent["shape"]), "sizes": tuple(sent["sizes"])})
    return work, work.module()


def small_cnn(shape: tuple[int, ...], classes: int) -> nn.Module:
    channels, height, width = shape
    return nn.Sequential(
        *(nn.Conv2d(channels, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * (height // 4) * (width // 4), 128), nn.ReLU()),
        nn.Linear(128, classes),
    )


def thesis_mnist(shape: tuple[int, ...], classes: int) -> nn.Module:
    channels, height, width = shape
    left = [((side - 4) // 2 - 4) // 2 for side in (height, width)]
    return nn.Sequential(
        *(nn.Conv2d(channels, 10, 5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Conv2d(10, 20, 5), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(20 * left[0] * left[1], 50), nn.ReLU(), nn.Dropout(0.5)),
        nn.Linear(50, classes),
    )


def mlp(shape: tuple[int, ...], classes: int) -> nn.Module:
    inputs = torch.Size(shape).numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 200), nn.ReLU(), nn.Linear(200, classes))


def _conv(inputs: int, outputs: int, *then: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), *then)


class Around(nn.Module):
    """The input passed on around some layers."""

    def __init__(self, *layers: nn.Module, shortcut: nn.Module | None = None):
        super().__init__()
        self.layers, self.shortcut = nn.Sequential(*layers), shortcut or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.shortcut(x) + self.layers(x)


def resnet9(shape: tuple[int, ...], classes: int) -> nn.Module:
    channels, height, width = shape
    return nn.Sequential(
        _conv(channels, 32),
        _conv(32, 64, nn.MaxPool2d(2)),
        Around(_conv(64, 64), _conv(64, 64)),
        _conv(64, 128, nn.MaxPool2d(2)),
        _conv(128, 256, nn.MaxPool2d(2)),
        Around(_conv(256, 256), _conv(256, 256)),
        *(nn.MaxPool2d((height // 8, width // 8)), nn.Flatten(), nn.Dropout(0.2), nn.Linear(256, classes)),
    )


def mobilenet_v2(shape: tuple[int, ...], classes: int) -> nn.Module:
    """The variant for 32x32 images of FLea's code: first two strides 1, a projection where widths differ."""

    def norm(inputs: int, outputs: int, size: int = 1, stride: int = 1, groups: int = 1) -> nn.Sequential:
        conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return nn.Sequential(conv, nn.BatchNorm2d(outputs))

    def block(inputs: int, outputs: int, expand: int, stride: int) -> nn.Module:
        wide = inputs * expand
        layers = (
            *(norm(inputs, wide), nn.ReLU(), norm(wide, wide, 3, stride, groups=wide), nn.ReLU()),
            norm(wide, outputs),
        )
        if stride > 1:
            return nn.Sequential(*layers)
        return Around(*layers, shortcut=norm(inputs, outputs) if inputs != outputs else None)

    stages = ((1, 16, 1, 1), (6, 24, 2, 1), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2))
    layers: list[nn.Module] = [norm(shape[0], 32, 3), nn.ReLU()]
    width = 32
    for expand, outputs, count, stride in (*stages, (6, 320, 1, 1)):
        for number in range(count):
            layers.append(block(width, outputs, expand, stride if number == 0 else 1))
            width = outputs
    return nn.Sequential(
        *layers, norm(width, 1280), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(1280, classes)
    )


MODELS = {
    "small_cnn": small_cnn,
    "thesis_mnist": thesis_mnist,
    "mlp": mlp,
    "resnet9": resnet9,
    "mobilenet_v2": mobilenet_v2,
}

"""The networks that attackers train: a decoder from what is shared to the sample, and a detector of a mark.

Both take any shape. What they are fed is standardised by channel first, as an attacker would: features whose
scale a method has shrunk are no harder to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from unskew.seeds import key

WIDTH = 32


class Standardised(nn.Module):
    """Shifts and scales each channel by what a first batch was like."""

    def __init__(self, like: Tensor) -> None:
        super().__init__()
        axes = [a for a in range(like.dim()) if a != 1]
        shape = (1, -1, *[1] * (like.dim() - 2))
        self.register_buffer("mean", like.mean(axes).reshape(shape))
        self.register_buffer("scale", like.std(axes).clamp_min(1e-6).reshape(shape))
        self.mean: Tensor
        self.scale: Tensor

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.scale


def decoder(seen: Tensor, shape: tuple[int, ...]) -> nn.Module:
    """From what is seen (a batch, for its shape and scale) to samples of ``shape``, with values from 0 to 1.

    FLea, appendix D: four convolutions. The authors' code has 1x1, transposed, 3x3 and 1x1 (FACTS 3.1); the width
    is ours. Activations smaller than the sample are enlarged after the first; vectors are spread over half of
    the sample's sides before it.
    """
    first: list[nn.Module] = [Standardised(seen)]
    if len(shape) != 3:
        size = math.prod(seen.shape[1:])
        dense = (nn.Flatten(), nn.Linear(size, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, math.prod(shape)))
        return nn.Sequential(*first, *dense, nn.Sigmoid(), nn.Unflatten(1, shape))
    channels, height, width = shape
    inputs = seen.shape[1]
    if seen.dim() != 4:
        small = (-(-height // 2), -(-width // 2))
        inputs = WIDTH
        size = math.prod(seen.shape[1:])
        first += [nn.Flatten(), nn.Linear(size, inputs * math.prod(small)), nn.ReLU()]
        first += [nn.Unflatten(1, (inputs, *small))]
    layers: list[nn.Module] = [nn.Conv2d(inputs, WIDTH, 1), nn.ReLU()]
    if tuple(seen.shape[2:]) != (height, width):
        layers.append(nn.Upsample((height, width)))
    layers += [nn.ConvTranspose2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()]
    layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(WIDTH, channels, 1), nn.Sigmoid()]
    return nn.Sequential(*first, *layers)


def detector(seen: Tensor) -> nn.Module:
    """From what is seen to one logit: whether the mark is there."""
    first = Standardised(seen)
    if seen.dim() != 4:
        size = math.prod(seen.shape[1:])
        return nn.Sequential(first, nn.Flatten(), nn.Linear(size, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))
    channels, height, width = seen.shape[1:]
    left = (min(4, height), min(4, width))
    return nn.Sequential(
        first,
        nn.Conv2d(channels, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d((min(16, height), min(16, width))),
        nn.Conv2d(32, WIDTH, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(left),
        nn.Flatten(),
        nn.Linear(WIDTH * left[0] * left[1], 1),
    )


def made(make: Callable[[], nn.Module], seed: int, *words: int | str) -> nn.Module:
    """A network whose first weights are a function of the seed and the words; no global generator moves."""
    with _alone(key(seed, "attacker", *words) % 2**63):
        return make()


@contextmanager
def _alone(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield

"""Networks that make samples, or features, of a wanted class from noise: functions of a tree of weights.

A generator of samples has four layers. The first spreads noise and label over a coarse grid, the others are
transposed convolutions that refine it: by two along both axes for images, by four for spectrograms, by four along
time alone for series. What sticks out is cut off, and every channel is brought to mean 0 and spread 1, as samples
are when a model sees them. Plain vectors and features are made by two dense layers.

All there is to know of a generator is in its tree, the strides too (a kernel spans two of them), so that a step can
be handed it like any other tensors, under ``vmap`` as well.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

FINER: dict[str, tuple[int, int]] = {"image": (2, 2), "spectrogram": (4, 4), "series": (4, 1)}
"""How much finer each of the last three layers makes height and width."""
WIDTHS: dict[str, tuple[int, int, int]] = {
    "image": (128, 64, 32),
    "spectrogram": (64, 32, 16),
    "series": (128, 64, 32),
}
HIDDEN = 256
MOMENTUM, EPS = 0.1, 1e-5

Tree = dict[str, "Tensor"]


def sample_generator(
    kind: str, shape: tuple[int, ...], classes: int, noise: int, rng: np.random.Generator
) -> Tree:
    """A new generator of samples of this kind and shape, in float64."""
    if kind not in FINER or len(shape) != 3:
        tree = _dense(noise + classes, math.prod(shape), rng) | _norm(1, math.prod(shape), affine=False)
        del tree["1.shift"]
        return tree
    channels, *sides = shape
    by = FINER[kind]
    start = tuple(math.ceil(side / s**3) for side, s in zip(sides, by, strict=True))
    kernel = tuple(2 * s if s > 1 else 1 for s in by)
    widths = (noise + classes, *WIDTHS[kind], channels)
    tree = {}
    for layer, (inputs, outputs) in enumerate(pairwise(widths)):
        size = start if layer == 0 else kernel
        # a place of the finer grid is reached by two places of the coarser along each axis that is refined
        reach = inputs * (1 if layer == 0 else math.prod(2 if s > 1 else 1 for s in by))
        tree[f"{layer}.weight"] = _normal(rng, (inputs, outputs, *size), reach)
        tree |= _norm(layer, outputs, affine=layer < 3)
    return tree


def feature_generator(width: int, classes: int, noise: int, rng: np.random.Generator) -> Tree:
    """A new generator of features, in float64."""
    return _dense(noise + classes, width, rng)


def trained(tree: Tree) -> list[str]:
    """The names of what is trained; the rest are running averages."""
    return [k for k in tree if not k.endswith((".mean", ".var"))]


def generated(
    tree: Tree, noise: Tensor, label: Tensor, shape: tuple[int, ...], statistics: Tree | None = None
) -> Tensor:
    """One sample of ``shape`` for each row of noise and of label (one number per class).

    Normalised by the running averages of the tree; or by those of these rows, which then also move the averages,
    left in ``statistics``.
    """
    x = torch.cat([noise, label.to(noise.dtype)], -1)
    depth = sum(k.endswith(".weight") for k in tree)
    if tree["0.weight"].dim() == 4:
        x = x[..., None, None]
    for layer in range(depth):
        weight = tree[f"{layer}.weight"]
        if weight.dim() == 2:
            x = x @ weight.T
        elif layer == 0:
            x = torch.conv_transpose2d(x, weight)
        else:
            stride = [max(1, side // 2) for side in weight.shape[2:]]
            x = torch.conv_transpose2d(x, weight, stride=stride, padding=[s // 2 for s in stride])
        if layer == depth - 1 and x.dim() == 4:
            x = x[..., : shape[-2], : shape[-1]]
        x = _normalised(tree, layer, x, statistics)
        if f"{layer}.scale" in tree and layer < depth - 1:
            x = torch.relu(x)
    return x.reshape(len(noise), *shape)


def _normalised(tree: Tree, layer: int, x: Tensor, statistics: Tree | None) -> Tensor:
    row = (1, -1, *[1] * (x.dim() - 2))
    if f"{layer}.mean" in tree:
        mean, var = tree[f"{layer}.mean"], tree[f"{layer}.var"]
        if statistics is not None:
            axes = [axis for axis in range(x.dim()) if axis != 1]
            running = mean, var
            mean, var = x.mean(axes), x.var(axes, unbiased=False)
            for name, old, new in zip(("mean", "var"), running, (mean, var), strict=True):
                statistics[f"{layer}.{name}"] = (old + MOMENTUM * (new - old)).detach()
        x = (x - mean.view(row)) * torch.rsqrt(var + EPS).view(row)
    if f"{layer}.scale" in tree:
        x = x * tree[f"{layer}.scale"].view(row)
    if f"{layer}.shift" in tree:
        x = x + tree[f"{layer}.shift"].view(row)
    return x


def _dense(inputs: int, outputs: int, rng: np.random.Generator) -> Tree:
    first, second = _normal(rng, (HIDDEN, inputs), inputs), _normal(rng, (outputs, HIDDEN), HIDDEN)
    shift = torch.zeros(outputs, dtype=torch.float64)
    return {"0.weight": first, **_norm(0, HIDDEN), "1.weight": second, "1.shift": shift}


def _norm(layer: int, width: int, affine: bool = True) -> Tree:
    zeros, ones = torch.zeros(width, dtype=torch.float64), torch.ones(width, dtype=torch.float64)
    learnt = {f"{layer}.scale": ones.clone(), f"{layer}.shift": zeros.clone()} if affine else {}
    return {**learnt, f"{layer}.mean": zeros.clone(), f"{layer}.var": ones.clone()}


def _normal(rng: np.random.Generator, shape: tuple[int, ...], reach: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal(shape) / math.sqrt(reach))

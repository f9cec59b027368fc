"""Pictures: flipped, moved, tilted, noisy; and other colours where there are colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

CHANCE = 0.5
"""Of each transformation, per picture; its strength is drawn too (thesis 5.3)."""
ANGLE = np.pi / 9  # 20 degrees (thesis 5.3)
SHIFT, SCALE, TILT = 0.1, 0.1, 0.2
NOISE = 0.2  # at most, in units of the picture's own spread
DRAWN = 1 << 16
JITTER, GREY = 0.2, 0.1
LUMA = (0.299, 0.587, 0.114)


def image(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Horizontal flip, affine and perspective transformation, noise; colour jitter and greyscale for RGB."""
    moved = _resampled(x, _homographies(len(x), x.shape[-1] / x.shape[-2], rng))
    if x.shape[1] == 3:
        moved = _recoloured(moved, rng)
    return _noisy(moved, rng)


def _homographies(count: int, aspect: float, rng: np.random.Generator) -> Tensor:
    """[count, 3, 3]: where in the old picture each place of the new one lies, both from -1 to 1."""

    def drawn(strength: float, columns: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        applies = rng.random((count, 1)) < CHANCE
        return np.where(applies, rng.uniform(-strength, strength, (count, columns)), 0.0)

    flip = np.where(rng.random(count) < CHANCE, -1.0, 1.0)
    affine = drawn(1.0, 4)  # applied or not as one
    angle, scale, shift = affine[:, 0] * ANGLE, 1 + affine[:, 1] * SCALE, affine[:, 2:] * 2 * SHIFT
    matrix = np.zeros((count, 3, 3))
    matrix[:, 0, 0], matrix[:, 0, 1] = flip * np.cos(angle) * scale, -np.sin(angle) * scale / aspect
    matrix[:, 1, 0], matrix[:, 1, 1] = flip * np.sin(angle) * scale * aspect, np.cos(angle) * scale
    matrix[:, :2, 2] = shift
    matrix[:, 2, :2] = drawn(TILT, 2)
    matrix[:, 2, 2] = 1.0
    return torch.from_numpy(matrix).to(torch.float32)


def _resampled(x: Tensor, matrices: Tensor) -> Tensor:
    """Every picture seen through its matrix, in one bilinear lookup for flip, affine and perspective together."""
    count, _, height, width = x.shape
    rows, columns = (torch.arange(n, dtype=torch.float32) * 2 / n + 1 / n - 1 for n in (height, width))
    ones = torch.ones(height, width, dtype=torch.float32)  # whatever type a user has made torch's default
    places = torch.stack([columns.expand(height, width), rows[:, None].expand(height, width), ones], -1)
    seen = (places.reshape(1, -1, 3) @ matrices.transpose(1, 2)).view(count, height, width, 3)
    grid = seen[..., :2] / seen[..., 2:]
    # behind the edge: black for grey pictures, whose background it is; mirrored for photographs, which have none
    edge = "zeros" if x.shape[1] == 1 else "reflection"
    out: Tensor = torch.nn.functional.grid_sample(
        x, grid, mode="bilinear", padding_mode=edge, align_corners=False
    )
    return out


def _recoloured(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Brightness, contrast and saturation within 20%; a tenth of the pictures turn grey."""
    count = len(x)
    factors = np.where(rng.random((count, 1)) < CHANCE, rng.uniform(1 - JITTER, 1 + JITTER, (count, 3)), 1.0)
    factors[rng.random(count) < GREY, 2] = 0.0
    bright, contrast, saturation = torch.from_numpy(factors).to(torch.float32).T.reshape(3, count, 1, 1, 1)
    grey = LUMA[0] * x[:, :1] + LUMA[1] * x[:, 1:2] + LUMA[2] * x[:, 2:]
    middle = grey.mean((2, 3), keepdim=True)
    recoloured: Tensor = bright * (contrast * (grey + saturation * (x - grey) - middle) + middle)
    return recoloured


def _noisy(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Gaussian noise on half of the pictures."""
    chosen = torch.from_numpy(np.flatnonzero(rng.random(len(x)) < CHANCE))
    if not len(chosen):
        return x
    strength = torch.from_numpy(rng.uniform(0, NOISE, len(chosen)).astype(np.float32)).view(-1, 1, 1, 1)
    spread = x[chosen].std((1, 2, 3), keepdim=True, unbiased=False)
    # windows of one long draw at random places: as good as fresh numbers here, and several times faster
    size = x[0].numel()
    drawn = np.lib.stride_tricks.sliding_window_view(
        rng.standard_normal(DRAWN + size, dtype=np.float32), size
    )
    noise = torch.from_numpy(drawn[rng.integers(0, DRAWN, len(chosen))]).view(len(chosen), *x.shape[1:])
    out = x.clone()
    out[chosen] += strength * spread * noise
    return out

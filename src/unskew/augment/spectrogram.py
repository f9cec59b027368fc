"""Sounds as spectrograms: later or earlier, with bands of frequency and stretches of time masked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

CHANCE = 0.5
WIDEST_MASK = 1 / 8
"""Of a mask, as a share of the axis; small enough that a class survives two of them."""
SHIFT = 0.1


def spectrogram(x: Tensor, rng: np.random.Generator) -> Tensor:
    """A shift in time, then a mask over frequencies and one over times, of [b, channels, bands, frames].

    Masks (Park et al., SpecAugment, 2019) hold the mean of their channel, so that they are no event themselves.
    """
    count, _, bands, frames = x.shape
    shift = np.rint((rng.random(count) < CHANCE) * rng.uniform(-SHIFT, SHIFT, count) * frames).astype(
        np.int64
    )
    index = torch.from_numpy((np.arange(frames)[None] - shift[:, None]) % frames)
    out = torch.gather(x, 3, index[:, None, None, :].expand(x.shape))
    mean = x.mean((2, 3), keepdim=True)
    for masked in (
        mask_bands(count, bands, rng)[:, None, :, None],
        mask_bands(count, frames, rng)[:, None, None, :],
    ):
        out = torch.where(masked, mean, out)
    return out


def mask_bands(count: int, length: int, rng: np.random.Generator) -> Tensor:
    """[count, length]: one stretch each, nowhere in half of the samples."""
    width = np.floor(rng.uniform(0, length * WIDEST_MASK + 1, count)) * (rng.random(count) < CHANCE)
    start = np.floor(rng.random(count) * (length - width + 1))
    at = np.arange(length)[None]
    return torch.from_numpy((at >= start[:, None]) & (at < (start + width)[:, None]))

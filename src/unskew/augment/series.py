"""Recordings of sensors: noisier, stronger or weaker, faster here and slower there. And plain vectors, noisier."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unskew.later import torch

if TYPE_CHECKING:
    from torch import Tensor

CHANCE = 0.5
NOISE = 0.1  # at most, in units of a sensor's own spread
GAIN = 0.1
WARP = 0.2  # spread of the logarithm of the speed
KNOTS = 5


def series(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Time warp, scaling and jitter of [b, 1, time, sensors] (or [b, 1, 1, time])."""
    if x.shape[-2] == 1:
        return series(x.transpose(-1, -2), rng).transpose(-1, -2) if x.shape[-1] > 1 else vector(x, rng)
    out = _warped(x, rng)
    sensors = (len(x), 1, 1, x.shape[-1])
    gain = 1 + _sometimes(rng, len(x)) * rng.normal(0, GAIN, sensors)
    out = out * torch.from_numpy(gain).to(x.dtype)
    strength = _sometimes(rng, len(x)) * rng.uniform(0, NOISE, (len(x), 1, 1, 1))
    spread = x.std(-2, keepdim=True, unbiased=False)
    noise = torch.from_numpy(rng.standard_normal(tuple(x.shape), dtype=np.float32)).to(x.dtype)
    return out + torch.from_numpy(strength).to(x.dtype) * spread * noise


def vector(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Jitter; features come in units of their spread over the data set."""
    strength = torch.from_numpy(rng.uniform(0, NOISE, (len(x), *[1] * (x.dim() - 1)))).to(x.dtype)
    return x + strength * torch.from_numpy(rng.standard_normal(tuple(x.shape), dtype=np.float32)).to(x.dtype)


def _sometimes(rng: np.random.Generator, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return (rng.random((count, 1, 1, 1)) < CHANCE).astype(np.float64)


def _warped(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Time run through at a speed that drifts between a few knots; both ends stay where they are."""
    count, time = len(x), x.shape[-2]
    speeds = np.exp(_sometimes(rng, count)[:, 0, 0] * rng.normal(0, WARP, (count, KNOTS)))
    at = np.linspace(0, KNOTS - 1, time - 1)
    left = np.minimum(at.astype(np.int64), KNOTS - 2)
    part = at - left
    speed = speeds[:, left] * (1 - part) + speeds[:, left + 1] * part
    place = np.concatenate([np.zeros((count, 1)), np.cumsum(speed, axis=1)], axis=1)
    place *= (time - 1) / place[:, -1:]
    before = np.clip(place.astype(np.int64), 0, time - 2)
    share = torch.from_numpy(place - before).to(x.dtype)[:, None, :, None]
    index = torch.from_numpy(before)[:, None, :, None].expand(x.shape)
    return torch.gather(x, 2, index) * (1 - share) + torch.gather(x, 2, index + 1) * share

"""How close a reconstruction is to the original: MSE, PSNR and SSIM, of values from 0 to 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from unskew.core.types import Ids

PERFECT = 1e-10
"""An error below which PSNR stops growing: at 100 dB."""


def mse(found: Tensor, original: Tensor) -> Tensor:
    """Mean squared error of each sample."""
    return (found - original).square().flatten(1).mean(1)


def psnr(error: Tensor) -> Tensor:
    """Peak signal-to-noise ratio in dB, of mean squared errors where the peak is 1; at most 100."""
    return -10 * torch.log10(error.clamp_min(PERFECT))


def ssim(found: Tensor, original: Tensor) -> Tensor:
    """Structural similarity of each image (Wang et al., IEEE TIP 2004): a Gaussian window of 11, sigma 1.5.

    Where an image is narrower than the window, the window is as wide as the image.
    """
    a, b = found, original
    window = _window(a.shape[1], (min(11, a.shape[2]), min(11, a.shape[3])), a)

    def local(v: Tensor) -> Tensor:
        return F.conv2d(v, window, groups=v.shape[1])

    mean_a, mean_b = local(a), local(b)
    var_a, var_b = local(a * a) - mean_a**2, local(b * b) - mean_b**2
    both = local(a * b) - mean_a * mean_b
    c1, c2 = 0.01**2, 0.03**2
    value = (2 * mean_a * mean_b + c1) * (2 * both + c2)
    return (value / ((mean_a**2 + mean_b**2 + c1) * (var_a + var_b + c2))).flatten(1).mean(1)


def _window(channels: int, sides: tuple[int, int], like: Tensor) -> Tensor:
    def bell(side: int) -> Tensor:
        at = torch.arange(side, dtype=like.dtype, device=like.device) - (side - 1) / 2
        weight = torch.exp(-(at**2) / (2 * 1.5**2))
        return weight / weight.sum()

    return torch.outer(bell(sides[0]), bell(sides[1])).expand(channels, 1, *sides)


def judge_likeness(found: Tensor, original: Tensor) -> dict[str, float]:
    """The three numbers, each the mean over samples; PSNR is the mean of the samples' own. Only pictures have SSIM."""
    error = mse(found, original)
    told = {"mse": float(error.mean()), "psnr": float(psnr(error).mean())}
    return told | ({"ssim": float(ssim(found, original).mean())} if found.dim() == 4 else {})


def match_samples(found: Tensor, original: Tensor) -> Ids:
    """For each ``original`` the row of ``found`` that is meant, one each, so that the whole error is least."""
    from scipy.optimize import linear_sum_assignment

    apart = torch.cdist(original.flatten(1).double(), found.flatten(1).double()).square().cpu().numpy()
    rows, columns = linear_sum_assignment(apart)
    order: Ids = np.asarray(columns[np.argsort(rows)], np.int64)
    return order


def nearly(value: float) -> str:
    """A PSNR in words that fit a table."""
    return "exact" if value >= 99 or math.isinf(value) else f"{value:.1f} dB"


def likeness(told: Mapping[str, Any]) -> str:
    """PSNR and, of pictures, SSIM, in words."""
    return f"PSNR {nearly(told['psnr'])}" + (f", SSIM {told['ssim']:.2f}" if "ssim" in told else "")

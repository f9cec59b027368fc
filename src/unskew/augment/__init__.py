"""Altered copies of samples: what a flip, a shift or a mask leaves of the label it leaves alone. One line a kind."""

from __future__ import annotations

import numpy as np

from unskew.arrays import Array
from unskew.augment.image import image
from unskew.augment.series import series, vector
from unskew.augment.spectrogram import spectrogram
from unskew.data.dataset import Dataset
from unskew.later import torch

FAMILIES = {"image": image, "series": series, "spectrogram": spectrogram, "vector": vector}
"""By kind of data: samples [b, ...] as float32 and a generator in, altered ones out."""

SAMPLES_AT_ONCE = 256
"""Samples altered at a time: few enough to stay in the processor's cache."""


def alter(dataset: Dataset, samples: Array, rng: np.random.Generator) -> Array:
    """An altered copy of each of these samples of a data set, in its own type."""
    kind = dataset.x.dtype
    made = np.empty((len(samples), *dataset.shape), kind)
    for start in range(0, len(samples), SAMPLES_AT_ONCE):
        block = slice(start, start + SAMPLES_AT_ONCE)
        x = torch.from_numpy(samples[block]).to(torch.float32)
        if dataset.kind == "vector":
            x = dataset.normalise(x)
        altered = FAMILIES[dataset.kind](x, rng)
        if dataset.kind == "vector":
            altered = dataset.restore(altered)
        out = altered.numpy()
        if kind.kind in "iu":
            bounds = np.iinfo(kind)
            out = np.clip(np.rint(out), bounds.min, bounds.max)
        made[block] = out.astype(kind)
    return made

"""How much of a sample is still in what is shared of it: the distance correlation c of FLea's eq. 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.distance_correlation import distance_correlation
from unskew.engines.site import tensor_of
from unskew.net import Net
from unskew.privacy.groups import Groups
from unskew.privacy.views import View
from unskew.seeds import generator
from unskew.types import Ids, Tree

BATCHES = 10


def taken(dataset: Dataset, places: Ids, device: str, dtype: torch.dtype, test: bool = False) -> Tensor:
    """Normalised samples at these places of the pool, or of the test set, in the shape of ``places``."""
    x = tensor_of((dataset.x_test if test else dataset.x)[places.reshape(-1)]).to(device, dtype)
    mean, std = (
        tensor_of(v).to(device, dtype).reshape(-1, *[1] * (x.dim() - 2)) for v in (dataset.mean, dataset.std)
    )
    return ((x - mean) / std).reshape(*places.shape, *x.shape[1:])


def drawn(
    federation: Federation, view: View, batch: int, seed: int, device: str, dtype: torch.dtype
) -> list[Tensor]:
    """Batches of groups to measure c on, the same for every model."""
    size, groups = min(batch, len(federation.dataset)), Groups(federation)
    return [
        taken(
            federation.dataset,
            groups.fresh(size, view.group, generator(seed, "correlation", at)),
            device,
            dtype,
        )
        for at in range(BATCHES)
    ]


def correlation(net: Net, model: Tree, view: View, batches: Sequence[Tensor]) -> dict[str, float]:
    """c between samples and what is shared of them: mean and standard deviation over batches.

    c falls with the size of a batch (few samples correlate by chance), so a batch is one of training. Of an
    average, c is taken with one of the samples behind it.
    """
    with torch.inference_mode():
        found = [
            float(distance_correlation(x[:, 0].double(), view.show(net, model, x).double())) for x in batches
        ]
    return {"mean": float(np.mean(found)), "sd": float(np.std(found))}


def watch(
    net: Net,
    federation: Federation,
    views: Mapping[str, View],
    batch: int,
    seed: int,
    device: str,
    dtype: torch.dtype,
) -> Callable[[Tree], dict[str, float]]:
    """What a round's line says: part -> c of what it shares, under the model that the round ended with."""
    held = {part: drawn(federation, view, batch, seed, device, dtype) for part, view in views.items()}
    return lambda model: {part: correlation(net, model, views[part], x)["mean"] for part, x in held.items()}

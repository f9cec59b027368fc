"""How much of a sample is still in what is shared of it: the distance correlation c of FLea's eq. 8."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

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
HELD = 1 << 24
"""Numbers of samples in memory at once, however many are behind one average."""


def taken(dataset: Dataset, places: Ids, device: str, dtype: torch.dtype, test: bool = False) -> Tensor:
    """Normalised samples at these places of the pool, or of the test set, in the shape of ``places``."""
    x = tensor_of((dataset.x_test if test else dataset.x)[places.reshape(-1)]).to(device, dtype)
    return dataset.normalise(x).reshape(*places.shape, *x.shape[1:])


def in_pieces(view: View, shape: tuple[int, ...], rows: int) -> Iterator[slice]:
    """Stretches of so many rows, each of at most ``HELD`` numbers with all the samples behind them."""
    size = min(250, max(1, HELD // (view.group * math.prod(shape))))
    return (slice(at, at + size) for at in range(0, rows, size))


def shown(
    net: Net,
    model: Tree,
    view: View,
    dataset: Dataset,
    places: Ids,
    device: str,
    dtype: torch.dtype,
    test: bool = False,
) -> tuple[Tensor, Tensor]:
    """(the first sample of every group, what is seen of the group)."""
    found = []
    for piece in in_pieces(view, dataset.shape, len(places)):
        groups = taken(dataset, places[piece], device, dtype, test)
        found.append((groups[:, 0].clone(), view.show(net, model, groups)))
    first, seen = (torch.cat([one[k] for one in found]) for k in (0, 1))
    return first, seen


def drawn(federation: Federation, view: View, batch: int, seed: int) -> list[Ids]:
    """Batches of groups to measure c on, the same for every model."""
    size, groups = min(batch, len(federation.dataset)), Groups(federation)
    return [groups.fresh(size, view.group, generator(seed, "correlation", at)) for at in range(BATCHES)]


def correlation(
    net: Net,
    model: Tree,
    view: View,
    dataset: Dataset,
    batches: Sequence[Ids],
    device: str,
    dtype: torch.dtype,
) -> dict[str, float]:
    """c between samples and what is shared of them: mean and standard deviation over batches.

    c falls with the size of a batch (few samples correlate by chance), so a batch is one of training. Of an
    average, c is taken with one of the samples behind it.
    """
    with torch.inference_mode():
        pairs = (shown(net, model, view, dataset, places, device, dtype) for places in batches)
        found = [float(distance_correlation(x.double(), seen.double())) for x, seen in pairs]
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
    held = {part: drawn(federation, view, batch, seed) for part, view in views.items()}

    def c(part: str, model: Tree) -> float:
        found = correlation(net, model, views[part], federation.dataset, held[part], device, dtype)
        return found["mean"]

    always = {part: c(part, net.initial) for part, view in views.items() if not view.of_model}
    return lambda model: {part: always[part] if part in always else c(part, model) for part in views}

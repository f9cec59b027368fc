"""How much of a sample is still in what is shared of it: the distance correlation c of FLea's eq. 8."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import torch
from torch import Tensor

from unskew.core.engine import RunPlan
from unskew.core.held import OWN
from unskew.core.measure import ask_to_measure
from unskew.core.net import Net
from unskew.core.query import ClientView
from unskew.core.roster import Roster
from unskew.core.types import Ids, Tree
from unskew.core.views import View
from unskew.data.dataset import Dataset
from unskew.engines.device_data import tensor_of
from unskew.metrics.distance_correlation import distance_correlation
from unskew.seeds import generator

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


class Shown:
    """What a client would share of its samples, beside the samples: the laboratory's question, which no method asks."""

    name = f"{__name__}:Shown"
    questions = ("shown",)

    def shown(self, client: ClientView, view: View, groups: Mapping[int, Ids]) -> Tree:
        """The first sample of each group of positions in the client's own list, and what is seen of the group."""
        found = []
        for piece in in_pieces(view, client.shape, len(groups[client.client])):
            first, seen = view.of(client, groups[client.client][piece])
            found.append((first, seen))
        return {name: torch.cat([one[k] for one in found]) for k, name in enumerate(("x", "seen"))}


def drawn(roster: Roster, view: View, batch: int, seed: int, at: int) -> tuple[Ids, dict[int, Ids]]:
    """A batch of samples to measure c on, the same for every model: whose they are, in order, and which of each.

    All samples that clients hold are drawn alike. What stands behind one that is shared are samples of one client.
    """
    rng, ends = generator(seed, "correlation", at), np.cumsum(roster.sizes)
    numbers = np.sort(rng.permutation(int(ends[-1]))[:batch])
    owner = np.searchsorted(ends, numbers, side="right")
    groups: dict[int, Ids] = {}
    for client in np.unique(owner).tolist():
        first = numbers[owner == client] - (ends[client] - roster.sizes[client])
        others = rng.integers(0, roster.sizes[client], (len(first), view.group - 1))
        groups[client] = np.concatenate([first[:, None], others], 1)
    return owner, groups


def correlation(run: RunPlan, model: Tree, view: View, batch: int) -> dict[str, float]:
    """c between samples and what is shared of them: mean and standard deviation over batches.

    c falls with the size of a batch (few samples correlate by chance), so a batch is one of training. Of an
    average, c is taken with one of the samples behind it.
    """
    found, roster = [], run.as_dealt
    for at in range(BATCHES):
        owner, groups = drawn(roster, view, batch, run.job.seed, at)
        asked = np.unique(owner).tolist()
        along = model if view.of_model else {}
        with torch.inference_mode():
            answers = list(
                ask_to_measure(
                    run, "correlation", Shown(), "shown", asked, along, OWN, view=view, groups=groups
                )
            )
            x, seen = (torch.cat([a[k] for a in answers]).double() for k in ("x", "seen"))
            found.append(float(distance_correlation(x, seen)))
    return {"mean": float(np.mean(found)), "sd": float(np.std(found))}


def watch(run: RunPlan, views: Mapping[str, View], batch: int) -> Callable[[Tree], dict[str, float]]:
    """What a round's line says: part -> c of what it shares, under the model that the round ended with."""

    def c(part: str, model: Tree) -> float:
        return correlation(run, model, views[part], batch)["mean"]

    always = {part: c(part, run.job.net.initial) for part, view in views.items() if not view.of_model}
    return lambda model: {part: always[part] if part in always else c(part, model) for part in views}

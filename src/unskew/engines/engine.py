"""The seam: what a run hands an engine, and the one verb an engine has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch

from unskew.data.dataset import Array, Dataset
from unskew.data.federation import Federation
from unskew.decay import Constant, Decay
from unskew.faults import Faults
from unskew.method import Method
from unskew.net import Net
from unskew.parts import Local
from unskew.store import ClientStore
from unskew.types import Ids, Leg, Tree, Update


@dataclass
class Job:
    """Everything that stays the same over a run."""

    method: Method
    federation: Federation  # after the preparation before round 0
    net: Net
    local: Local
    engine: Engine
    rounds: int
    cohort: int
    seed: int
    decay: Decay = field(default_factory=Constant)
    faults: Faults = field(default_factory=Faults)
    batch_norm: str = "average"
    dtype: torch.dtype = torch.float32
    device: str = "cpu"
    dealt: Federation | None = None  # before that preparation, where it is known

    @property
    def judging_net(self) -> Net:
        """The net that judges: by the statistics of the test batch where clients keep or drop their own."""
        return self.net if self.batch_norm == "average" else self.net.by_batch_statistics()


@dataclass(frozen=True)
class Ground:
    """What a leg is played on: the round's data, what parts hand out, what clients remember, and the round's number."""

    federation: Federation
    shared: Mapping[str, Tree]
    store: ClientStore
    t: int


class Engine(Protocol):
    """Runs clients. ``visit`` is the server's only verb; an algorithm never knows which engine answers."""

    name: str

    def choice(self, job: Job) -> str:
        """What runs, in words."""
        ...

    def visit(self, job: Job, leg: Leg, rows: Ids, ground: Ground) -> Update:
        """Train the clients at these rows of the leg and bring back their update."""
        ...

    def evaluate(
        self, job: Job, model: Tree, dataset: Dataset, places: Array | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The model's predicted class and loss for the test set, or for these samples of the pool."""
        ...

    def close(self) -> None: ...


def client_means(job: Job, model: Tree, dataset: Dataset, places: Sequence[Array]) -> dict[str, Array]:
    """The mean "accuracy" and "loss" of the model on each client's samples; 0 where there are none.

    All are judged at once, unless a client's samples are judged by their own statistics.
    """
    apart = job.batch_norm != "average" and job.net.buffers
    lists = list(places) if apart else [np.concatenate([np.zeros(0, np.int64), *places])]
    found = [job.engine.evaluate(job, model, dataset, at) for at in lists]
    guess, loss = (
        np.concatenate([np.zeros(0), *(f.numpy() for f in each)]) for each in zip(*found, strict=True)
    )
    sizes = np.array([len(p) for p in places])
    owner = np.repeat(np.arange(len(places)), sizes)
    values = {"accuracy": guess == dataset.y[np.concatenate(lists)], "loss": loss}
    return {n: np.bincount(owner, v, minlength=len(places)) / np.maximum(1, sizes) for n, v in values.items()}


def probed(job: Job, model: Tree, update: Update, federation: Federation) -> Update:
    """The update with what its method's parts asked to have measured of ``model`` on each client's own data."""
    wanted = sorted({name for part in job.method.parts for name in part.probes})
    if not wanted:
        return update
    means = client_means(job, model, federation.dataset, [federation.samples(int(c)) for c in update.clients])
    return replace(update, probes={n: torch.from_numpy(means[n]) for n in wanted})

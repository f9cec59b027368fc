"""The standard jobs: fixed workloads on made-up data of the right shape, so that speeds can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unskew.arrays import Array
from unskew.core.slots import Local
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.data.partition import partition
from unskew.errors import InputError, unknown
from unskew.models import MODELS
from unskew.seeds import generator

CLASSES = 10


@dataclass(frozen=True)
class StandardJob:
    """Clients, a model and a local budget; plain SGD. With ``alpha``, clients are unequal: Dirichlet by class."""

    name: str
    title: str
    model: str
    shape: tuple[int, int, int]
    clients: int
    samples: int  # a client, or the mean where they are unequal
    cohort: int
    epochs: int
    batch: int
    lr: float = 0.01
    alpha: float | None = None
    seed: int = 0

    @property
    def available(self) -> bool:
        """Whether this version has the job's model."""
        return self.model in MODELS

    @property
    def local(self) -> Local:
        return Local(epochs=float(self.epochs), batch=self.batch, lr=self.lr)

    @cached_property
    def labels(self) -> Array:
        rng = generator(self.seed, "bench labels", self.name)
        return rng.integers(0, CLASSES, self.clients * self.samples)

    @cached_property
    def held(self) -> tuple[Array, Array]:
        """Which samples each client holds: indices and offsets."""
        if self.alpha is None:
            return np.arange(len(self.labels)), np.arange(self.clients + 1) * self.samples
        dealt = partition(self.labels, f"dirichlet({self.alpha})", self.clients, seed=self.seed)
        return dealt.indices, dealt.offsets

    @property
    def sizes(self) -> Array:
        return np.diff(self.held[1])

    def federation(self) -> Federation:
        """Seeded noise images in uint8, as data sets of images are kept, dealt to the clients."""
        rng = generator(self.seed, "bench images", self.name)
        x = rng.integers(0, 256, (len(self.labels), *self.shape), dtype=np.uint8)
        channels = self.shape[0]
        data = Dataset(
            name=f"made up for job {self.name}",
            x=x,
            y=self.labels,
            x_test=x[:CLASSES],
            y_test=self.labels[:CLASSES],
            labels=tuple(str(c) for c in range(CLASSES)),
            mean=np.full(channels, 127.5, np.float32),
            std=np.full(channels, 73.9, np.float32),
        )
        return Federation(data, *self.held)

    def about(self) -> str:
        each = f"about {self.samples} (Dirichlet {self.alpha})" if self.alpha else str(self.samples)
        size = "x".join(map(str, self.shape))
        return (
            f"{self.title}: {self.clients} clients x {each} samples of {size}, {self.cohort} a round, "
            f"E={self.epochs}, B={self.batch}, {self.model}"
        )


JOBS: dict[str, StandardJob] = {
    job.name: job
    for job in (
        StandardJob("A", "small CNN", "small_cnn", (3, 32, 32), 100, 100, 10, 5, 32),
        StandardJob("B", "two-convolution CNN", "thesis_mnist", (1, 28, 28), 1000, 50, 100, 5, 10),
        StandardJob("C", "dense", "mlp", (1, 28, 28), 1000, 50, 100, 5, 10),
        StandardJob("D", "SEM's ResNet-9", "resnet9", (3, 32, 32), 100, 100, 10, 8, 8, lr=0.001, alpha=0.1),
        StandardJob("E", "FLea's MobileNetV2", "mobilenet_v2", (3, 32, 32), 50, 100, 5, 10, 64),
    )
}
"""A, B and C are small models on equal clients; D and E are two papers' settings (FLea: appendix, figure 3)."""


def jobs_named(names: Sequence[str]) -> list[StandardJob]:
    """Jobs by letter, in the order given."""
    letters = [letter.strip().upper() for name in names for letter in name.split(",")]
    for letter in letters:
        if letter not in JOBS:
            raise unknown("job", letter, JOBS)
    if len(set(letters)) < len(letters):
        raise InputError(f"a job is named twice in {' '.join(letters)}; keep one")
    return [JOBS[letter] for letter in letters]

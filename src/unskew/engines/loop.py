"""The reference engine: one client after the other, in this process; plain, and the one to agree with."""

from __future__ import annotations

import torch
from torch import Tensor

from unskew.client import Task
from unskew.data.dataset import Array, Dataset
from unskew.engines.engine import Ground, Job
from unskew.engines.errands import errand, gathered
from unskew.engines.site import Site
from unskew.types import Ids, Leg, Tree, Update


class Loop:
    """Calls the client function for one client at a time."""

    name = "loop"

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = device or torch.device("cpu")
        self._site: Site | None = None

    def choice(self, job: Job) -> str:
        how = "one thread" if self.device.type == "cpu" else f"on {self.device}, no graphs"
        return f"one client after the other, {how}"

    def visit(self, job: Job, leg: Leg, rows: Ids, ground: Ground) -> Update:
        federation = ground.federation
        task = Task(job.net, job.method.objective, job.local, job.seed, federation.dataset.classes)
        errands = [errand(job, leg, int(row), ground) for row in rows]
        returns = self.site(job, federation.dataset).train(task, errands)
        return gathered(job, leg, rows, returns, federation)

    def evaluate(
        self, job: Job, model: Tree, dataset: Dataset, places: Array | None = None
    ) -> tuple[Tensor, Tensor]:
        return self.site(job, dataset).judge(job.judging_net, model, places)

    def site(self, job: Job, dataset: Dataset) -> Site:
        if self._site is None or self._site.dataset is not dataset:
            self._site = Site(dataset, job.dtype, self.device)
        return self._site

    def close(self) -> None:
        self._site = None

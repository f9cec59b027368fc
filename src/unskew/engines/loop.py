"""The reference engine: one client after the other, in this process; plain, and the one to agree with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from unskew.client import Pool, Task, train
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.engines.engine import Job
from unskew.engines.errands import errand, gathered, pool_of
from unskew.state import ClientStore
from unskew.types import Ids, Leg, Tree, Update


class Loop:
    """Calls the client function for one client at a time."""

    name = "loop"

    def __init__(self) -> None:
        self._pool: tuple[Dataset, Pool] | None = None

    def visit(
        self,
        job: Job,
        leg: Leg,
        rows: Ids,
        federation: Federation,
        shared: Mapping[str, Tree],
        store: ClientStore,
        t: int,
    ) -> Update:
        task = Task(job.net, job.method.objective, job.local, job.seed, federation.dataset.classes)
        pool = self.pool(job, federation.dataset)
        errands = [errand(job, leg, int(row), federation, shared, store, t) for row in rows]
        return gathered(job, leg, rows, [train(task, pool, e) for e in errands], errands, federation)

    def evaluate(self, job: Job, model: Tree, x: Any, y: Any) -> tuple[Tensor, Tensor]:
        net = job.net if job.batch_norm == "average" else job.net.by_batch_statistics()
        pool = pool_of(job, job.federation.dataset, x, y)
        guesses, losses = [], []
        with torch.inference_mode():
            for start in range(0, len(pool.y), 500):
                inputs, target = pool.take(torch.arange(start, min(start + 500, len(pool.y))))
                logits = net.judge(model, inputs)
                guesses.append(logits.argmax(1))
                losses.append(torch.nn.functional.cross_entropy(logits, target, reduction="none"))
        return torch.cat(guesses), torch.cat(losses)

    def pool(self, job: Job, dataset: Dataset) -> Pool:
        if self._pool is None or self._pool[0] is not dataset:
            self._pool = dataset, pool_of(job, dataset, dataset.x, dataset.y)
        return self._pool[1]

    def close(self) -> None:
        self._pool = None

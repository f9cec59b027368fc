"""pfl-research: ``FederatedAveraging`` on its ``SimulatedBackend``, one process, as it runs by default.

Its data set has the clients' tensors cut into batches once; it neither shuffles nor reads them again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from importlib.metadata import version
from typing import Any

import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import HyperParam, NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from benchmarks.peers.adapter import Line


class Learner(nn.Module):
    """A model with the two functions that pfl asks for."""

    def __init__(self, net: nn.Module):
        super().__init__()
        self.net = net

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        self.train()
        return cross_entropy(self.net(x), y)

    def metrics(self, x: Tensor, y: Tensor) -> dict[str, Any]:
        return {}


class InTurn(TrainingProcessCallback):
    """Ends one iteration with its time, and begins the next when told to."""

    def __init__(self, line: Line):
        self.line, self.rounds = line, line.rounds()
        self.queue: deque[int] = deque()

    def on_train_begin(self, *, model: Any) -> Metrics:
        self._begin()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        self.line.played(time.perf_counter() - self.began, self.line.work.trained(self.clients))
        return not self._begin(), Metrics()

    def _begin(self) -> bool:
        clients = next(self.rounds, None)
        if clients is None:
            return False
        self.clients, self.queue = clients, deque(clients)
        self.began = time.perf_counter()
        return True


class CohortSize(HyperParam[int]):
    """As many clients as the next round has."""

    def __init__(self, turns: InTurn):
        self.turns = turns

    def value(self) -> int:
        return len(self.turns.queue)


def main() -> None:
    line = Line()
    work = line.work
    logging.disable(logging.INFO)
    asyncio.set_event_loop(asyncio.new_event_loop())
    turns = InTurn(line)
    users = [PyTorchTensorDataset(tensors, user_id=str(c)) for c, tensors in enumerate(work.data)]
    data = FederatedDataset(lambda user: users[user], lambda: turns.queue.popleft())
    learner = Learner(work.module())
    model = PyTorchModel(learner, torch.optim.SGD, torch.optim.SGD(learner.parameters(), lr=1.0))
    line.ready(f"pfl {version('pfl')}, SimulatedBackend")
    FederatedAveraging().run(
        algorithm_params=NNAlgorithmParams(
            central_num_iterations=10**9,
            evaluation_frequency=10**9,
            train_cohort_size=CohortSize(turns),
            val_cohort_size=None,
        ),
        backend=SimulatedBackend(training_data=data, val_data=data, postprocessors=[WeightByDatapoints()]),
        model=model,
        model_train_params=NNTrainHyperParams(
            local_num_epochs=work.epochs, local_learning_rate=work.lr, local_batch_size=work.batch
        ),
        callbacks=[turns],
        send_metrics_to_platform=False,
    )


if __name__ == "__main__":
    main()

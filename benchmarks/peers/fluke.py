"""fluke: its FedAvg (``FedAVG``) with its own server, clients and ``FastDataLoader``, one process."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import torch
from torch import nn

from benchmarks.peers.adapter import Line

# fluke imports torchvision, whose wheel is built for torch with CUDA and which gives up under torch without, for
# want of two operators; fluke's FedAvg uses none of its operators, so naming those two is enough
if torch.version.cuda is None:
    operators = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        operators.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.client import Client
from fluke.config import OptimizerConfigurator
from fluke.data import FastDataLoader
from fluke.server import Server


class Finished(Exception):
    """Nobody asks for another round."""


class InTurn(Server):
    """fluke's server, which takes the clients it is told to."""

    def __init__(self, model: nn.Module, clients: Sequence[Client], line: Line):
        super().__init__(model, None, clients, weighted=True)
        self.line, self.waiting = line, line.rounds()
        self.began = 0.0
        self.chosen: list[int] = []

    def get_eligible_clients(self, eligible_perc: float) -> Sequence[Client]:
        chosen = next(self.waiting, None)
        if chosen is None:
            raise Finished
        self.chosen, self.began = chosen, time.perf_counter()
        return [self.clients[c] for c in chosen]

    def aggregate(self, eligible: Sequence[Client], client_models: Iterator[nn.Module]) -> None:
        super().aggregate(eligible, client_models)
        self.line.played(time.perf_counter() - self.began, self.line.work.trained(self.chosen))


def main() -> None:
    line = Line()
    work = line.work
    env = FlukeENV()
    env.set_seed(work.seed)
    env.set_device("cpu")
    env.set_inmemory(True)
    env.set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    optimizer = OptimizerConfigurator(DDict(name="SGD", lr=work.lr))
    clients = [
        Client(
            index=number,
            train_set=FastDataLoader(
                x, y, num_labels=work.classes, batch_size=work.batch, shuffle=True, skip_singleton=False
            ),
            test_set=None,
            optimizer_cfg=optimizer,
            loss_fn=nn.CrossEntropyLoss(),
            local_epochs=work.epochs,
        )
        for number, (x, y) in enumerate(work.data)
    ]
    server = InTurn(work.module(), clients, line)
    algorithm = FedAVG(work.clients, None, DDict(), clients=clients, server=server)
    line.ready(f"fluke {version('fluke-fl')}, FedAVG")
    with contextlib.suppress(Finished):
        algorithm.run(n_rounds=10**9, eligible_perc=work.cohort / work.clients)


if __name__ == "__main__":
    main()

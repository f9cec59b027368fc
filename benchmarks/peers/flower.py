"""Flower: its simulation runtime on Ray, one worker of one core for every core, the FedAvg of its server app.

The client app is that of its PyTorch quick start: load the arrays, train with a DataLoader, send the arrays back.
The model and the data are made once in each worker and kept.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"  # read when flwr is imported
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112  Ray spells it so; by default Ray's workers step back for whatever else runs

import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.adapter import Line, kept


class Finished(Exception):
    """Nobody asks for another round."""


class InTurn(FedAvg):
    """Flower's FedAvg, which trains the clients it is told to, when it is told to."""

    def __init__(self, line: Line):
        work = line.work
        super().__init__(
            fraction_train=work.cohort / work.clients,
            fraction_evaluate=0.0,
            min_train_nodes=work.cohort,
            min_available_nodes=work.clients,
        )
        self.line, self.waiting = line, line.rounds()
        self.job = json.dumps(asdict(work))

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        clients = next(self.waiting, None)
        if clients is None:
            raise Finished
        self.clients, self.began = clients, time.perf_counter()
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for message, client in zip(messages, clients, strict=True):
            told = ConfigRecord({"client": client, "job": self.job})
            message.content = RecordDict({"arrays": arrays, "config": told})
        return messages

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        failed = [r.error.reason for r in replies if r.has_error()]
        if failed:
            raise RuntimeError(failed[0])
        found = super().aggregate_train(server_round, replies)
        self.line.played(time.perf_counter() - self.began, self.line.work.trained(self.clients))
        return found


client_app = ClientApp()


@client_app.train()
def train(message: Message, context: Context) -> Message:
    config = message.content["config"]
    work, model = kept(config["job"])
    x, y = work.data[config["client"]]
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=work.lr)
    loader = DataLoader(TensorDataset(x, y), work.batch, shuffle=True)
    for _ in range(work.epochs):
        for batch, labels in loader:
            optimizer.zero_grad()
            cross_entropy(model(batch), labels).backward()
            optimizer.step()
    content = RecordDict(
        {"arrays": ArrayRecord(model.state_dict()), "metrics": MetricRecord({"num-examples": len(y)})}
    )
    return Message(content=content, reply_to=message)


def main() -> None:
    line = Line()
    work = line.work
    server_app = ServerApp()

    @server_app.main()
    def serve(grid: Grid, context: Context) -> None:
        about = (
            f"Flower {version('flwr')}, simulation, Ray {version('ray')} with {work.workers} workers of 1 cpu"
        )
        line.ready(about, False)
        InTurn(line).start(grid, ArrayRecord(work.module().state_dict()), num_rounds=10**9)

    run_simulation(
        server_app,
        client_app,
        num_supernodes=work.clients,
        backend_config={
            "init_args": {"num_cpus": work.workers, "include_dashboard": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )


if __name__ == "__main__":
    main()

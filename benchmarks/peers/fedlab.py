"""FedLab: its FedAvg, handler and serial trainer as its own standalone pipeline calls them, one process."""

from __future__ import annotations

import time
from importlib.metadata import version

import torch
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.adapter import Line, Work

# as for fluke: torchvision's wheel misses two operators under torch without CUDA, and nothing here uses them
if torch.version.cuda is None:
    operators = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        operators.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

from fedlab.contrib.algorithm.fedavg import FedAvgSerialClientTrainer, FedAvgServerHandler


class Held:
    """Who holds what, as FedLab asks for it."""

    def __init__(self, work: Work):
        self.sets = [TensorDataset(x, y) for x, y in work.data]

    def get_dataloader(self, client: int, batch_size: int) -> DataLoader:
        return DataLoader(self.sets[client], batch_size=batch_size, shuffle=True)


class AsTold(FedAvgServerHandler):
    """FedLab's server, which waits for as many clients as it is told to."""

    asked = 0

    @property
    def num_clients_per_round(self) -> int:
        return self.asked


def main() -> None:
    line = Line()
    work = line.work
    handler = AsTold(work.module(), 10**9, work.cohort / work.clients)
    handler.num_clients = work.clients
    trainer = FedAvgSerialClientTrainer(work.module(), work.clients)
    trainer.setup_dataset(Held(work))
    trainer.setup_optim(work.epochs, work.batch, work.lr)
    line.ready(f"FedLab {version('fedlab')}, FedAvg, its serial trainer")
    for chosen in line.rounds():
        began = time.perf_counter()
        handler.asked = len(chosen)
        trainer.local_process(handler.downlink_package, chosen)
        for package in trainer.uplink_package:
            handler.load(package)
        line.played(time.perf_counter() - began, work.trained(chosen))


if __name__ == "__main__":
    main()

"""The loop that most scripts have: the model copied for each client, a DataLoader, torch.optim.SGD."""

from __future__ import annotations

import copy
import time

import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.peers.adapter import Line


def main() -> None:
    line = Line()
    work = line.work
    model = work.module()
    loaders = [DataLoader(TensorDataset(x, y), work.batch, shuffle=True) for x, y in work.data]
    line.ready("model copied for each client, DataLoader")
    for clients in line.rounds():
        began = time.perf_counter()
        examples = sum(work.sizes[c] for c in clients)
        total = {k: torch.zeros_like(v, dtype=torch.float32) for k, v in model.state_dict().items()}
        for client in clients:
            mine = copy.deepcopy(model).train()
            optimizer = torch.optim.SGD(mine.parameters(), lr=work.lr)
            for _ in range(work.epochs):
                for x, y in loaders[client]:
                    optimizer.zero_grad()
                    cross_entropy(mine(x), y).backward()
                    optimizer.step()
            for name, value in mine.state_dict().items():
                total[name] += value * (work.sizes[client] / examples)
        model.load_state_dict(total)
        line.played(time.perf_counter() - began, work.trained(clients))


if __name__ == "__main__":
    main()

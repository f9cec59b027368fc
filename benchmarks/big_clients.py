"""Few, big clients: the engine against a plain loop with one CUDA graph: ``python -m benchmarks.big_clients``.

NIID-Bench's job on made-up images: 10 clients of 6,000 samples, LeNet, batches of 64, SGD with momentum and decay. The
loop is what a careful script does: samples on the device, one client after the other, a step captured once as a graph
and replayed with the places of each batch's samples copied in. Both play one leg in turn, from the same model over the
same batches, so that their models must come out alike; how far they are apart is printed. Wanted: the engine is not
slower. On a CPU (``--device cpu``) nothing is captured: that tells whether the two agree, and nothing about speed.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from unskew.bench.jobs import CLASSES, StandardJob
from unskew.bench.peak import synchronize
from unskew.core.client import Pool
from unskew.core.dispatch import make_client_job
from unskew.core.engine import Job, RoundInputs
from unskew.core.held import Moment
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.slots import Local
from unskew.core.store import ClientStore
from unskew.core.types import Leg, Tree
from unskew.engines.device_data import DeviceData
from unskew.engines.gpu.fast import FastGPU
from unskew.models import build

MOMENTUM, DECAY, RATE, BATCH = 0.9, 1e-5, 0.01, 64


class PlainLoop:
    """One model, one optimiser, a graph for each size of batch; clients take turns in them."""

    def __init__(self, module: torch.nn.Module, pool: Pool, device: torch.device):
        self.module, self.pool, self.device = module.to(device), pool, device
        self.weights = dict(module.named_parameters())
        self.speeds = [torch.zeros_like(w) for w in self.weights.values()]
        self.steps: dict[int, tuple[Tensor, Callable[[], object]]] = {}

    def train(self, start: Tree, places: Tensor, cuts: list[int]) -> Tree:
        """A client's steps from a model; the model it ends with."""
        with torch.no_grad():
            torch._foreach_copy_(list(self.weights.values()), [start[k] for k in self.weights])
            torch._foreach_zero_(self.speeds)
        places = places.to(self.device)
        for begin, end in itertools.pairwise(cuts):
            if end - begin not in self.steps:
                self.steps[end - begin] = self._captured(places[begin:end])
            here, step = self.steps[end - begin]
            here.copy_(places[begin:end])
            step()
        return {name: w.detach().clone() for name, w in self.weights.items()}

    def _captured(self, places: Tensor) -> tuple[Tensor, Callable[[], object]]:
        """The step for batches of this size; what the trial runs change is put back."""
        here, weights = places.clone(), list(self.weights.values())

        def step() -> None:
            x, y = self.pool.take(here)
            loss = F.cross_entropy(self.module(x), y)
            grads = torch.autograd.grad(loss, weights)
            with torch.no_grad():
                d = torch._foreach_add(grads, weights, alpha=DECAY)
                torch._foreach_mul_(self.speeds, MOMENTUM)
                torch._foreach_add_(self.speeds, d)
                torch._foreach_add_(weights, self.speeds, alpha=-RATE)

        if self.device.type != "cuda":
            return here, step
        moving = [*weights, *self.speeds]
        before = [v.detach().clone() for v in moving]
        aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        with torch.no_grad():
            torch._foreach_copy_(moving, before)
        return here, graph.replay


def main() -> int:
    """Print samples a second of both, the ratio, and how far their models are apart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--samples", type=int, default=6000, help="each client's")
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--legs", type=int, default=5, help="counted ones; one before them is not")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "tf32", "fp64"])
    given = parser.parse_args()
    device, clients = torch.device(given.device), np.arange(given.clients)
    dtype = torch.float64 if given.precision == "fp64" else torch.float32
    standard = StandardJob(
        "N", "NIID-Bench", "lenet", (1, 28, 28), given.clients, given.samples, given.clients, 1, BATCH
    )
    held = standard.federation()
    net, module = (build("lenet", standard.shape, CLASSES, 0, dtype) for _ in range(2))
    local = Local(epochs=given.epochs, batch=BATCH, lr=RATE, momentum=MOMENTUM, weight_decay=DECAY)
    roster, holdings = Roster.of(held), Holdings(held)
    job = Job(Method.parse("fedavg"), roster, Net(net), local, 0, dtype=dtype)
    pool = DeviceData(held.dataset, dtype, device).pool
    engine, plain = FastGPU(str(device), precision=given.precision), PlainLoop(module, pool, device)
    engine.hold(holdings)
    start = {k: v.to(device) for k, v in job.net.initial.items()}
    inputs = RoundInputs(roster, {}, ClientStore(), Moment(0, clients=clients), cohort=len(clients))
    leg = Leg(clients, start)

    def engines_leg() -> Tree:
        return engine.visit(job, leg, clients, inputs).params

    def loops_leg() -> Tree:
        ends = []
        for client in clients:
            one = make_client_job(job, leg, int(client), inputs, holdings)
            places = one.held[torch.from_numpy(one.plan.order)]
            ends.append(plain.train(start, places, one.plan.cuts.tolist()))
        return {k: torch.stack([end[k] for end in ends]) for k in ends[0]}

    ways = {"engine": engines_leg, "loop": loops_leg}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    models: dict[str, Tree] = {}
    for at in range(given.legs + 1):
        for name, way in ways.items():
            synchronize(device)
            began = time.perf_counter()
            models[name] = way()
            synchronize(device)
            if at:
                seconds[name].append(time.perf_counter() - began)
    trained = given.clients * given.samples * given.epochs
    for name, took in seconds.items():
        print(f"{name:8}{trained / median(took):12,.0f} samples/s (median of {given.legs} legs)")
    ratio = median(loop / ours for ours, loop in zip(*seconds.values(), strict=True))
    apart = max(float((models["engine"][k] - models["loop"][k]).abs().max()) for k in models["loop"])
    print(f"the engine is {ratio:.2f} times as fast as the loop; their models are {apart:.1e} apart")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""The GPU engine: does it agree with the loop, does it repeat to the bit, and how much faster is its step?

python -m benchmarks.gpu agree [METHOD ...]     loop on the CPU against the GPU, float64 and float32
python -m benchmarks.gpu speed [--compile]      samples a second: sequential eager, stacked, captured
python -m benchmarks.gpu kernels                one leg in bf16, client by client and by kernels for all clients
python -m benchmarks.gpu profile                what a step of SEM's setting is made of, kernel by kernel
python -m benchmarks.gpu rounds                 a hundred rounds of SEM's setting: seconds a round, and the host's part
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch

import unskew
from unskew.bench.peak import synchronize
from unskew.core.client import train
from unskew.core.dispatch import make_client_job
from unskew.core.faults import Faults
from unskew.core.held import Moment
from unskew.core.holdings import Holdings
from unskew.core.method import Method
from unskew.core.net import Net
from unskew.core.roster import Roster
from unskew.core.round import play_round
from unskew.core.slots import Local
from unskew.core.state import State, initial_state
from unskew.core.step import LocalTraining
from unskew.core.store import ClientStore
from unskew.core.types import Leg
from unskew.data import Dataset, Federation
from unskew.engines import Job, Loop, RoundInputs, RunPlan
from unskew.engines.device_data import DeviceData
from unskew.engines.gpu import grouping
from unskew.engines.gpu.fast import FastGPU
from unskew.engines.gpu.stacked_graphs import StackedGraphs
from unskew.models import build
from unskew.runs.result import params_hash

IMAGE, DIGIT, WINDOW = (3, 32, 32), (1, 28, 28), (1, 128, 3)

MODELS = {
    "small_cnn": (IMAGE, Local(batch=32)),
    "mlp": (IMAGE, Local(batch=10, momentum=0.9, nesterov=True, weight_decay=1e-3)),
    "resnet9": (IMAGE, Local(batch=8)),
    "thesis_cifar": (IMAGE, Local(batch=16, optimizer="adam", lr=0.001, clip=1.0)),
    "thesis_mnist": (DIGIT, Local(batch=10)),
    "thesis_fashion": (DIGIT, Local(batch=8, momentum=0.9)),
    "mobilenet_v2": (IMAGE, Local(batch=16)),
    "audionet": (IMAGE, Local(batch=16)),
    "harnet": (WINDOW, Local(batch=16)),
}


def federation(sizes: list[int], shape: tuple[int, ...] = (3, 32, 32)) -> Federation:
    rng = np.random.default_rng(0)
    n = sum(sizes)
    x, y = rng.integers(0, 255, (n, *shape), dtype=np.uint8), rng.integers(0, 10, n)
    scale = {"mean": np.full(shape[0], 120, np.float32), "std": np.full(shape[0], 60, np.float32)}
    data = Dataset("made", x, y, x[:64], y[:64], tuple("0123456789"), **scale)
    return Federation(data, np.arange(n), np.cumsum([0, *sizes]))


def played(run: RunPlan, rounds: int, device: str) -> State:
    job = run.job
    job.net.to(torch.device(device))
    memories = {p.name: p.init_server(job.net) for p in job.method.parts}
    state = initial_state(dict(job.net.initial), memories, 0)
    for _ in range(rounds):
        state, _ = play_round(run, state)
    return state


def agree(methods: list[str], device: str, models: list[str]) -> None:
    print(f"{'model':14}{'method':28}{'float64, 3 rounds':>20}{'float32, 1 round':>20}{'repeats':>9}")
    for model in models:
        shape, local = MODELS[model]
        unequal = federation([7, 53, 1, 39, 30, 20, 20, 20, 10, 20], shape)
        for expression in methods:
            method, found, repeats = Method.parse(expression), [], True
            for dtype, rounds in ((torch.float64, 3), (torch.float32, 1)):
                ends = []
                for engine, where in ((Loop(), "cpu"), (FastGPU(device), device), (FastGPU(device), device)):
                    net = Net(build(model, shape, 10, 0, dtype))
                    for part in method.objective:
                        net.grow(part.extra(net, shape, 0))
                    roster = Roster.of(unequal)
                    engine.hold(Holdings(unequal))
                    for part in method.prepare:
                        sharing = part.transfers(roster, 5, 0)
                        if sharing is not None:
                            roster = engine.transfer(part, sharing, roster, 0)
                    job = Job(method, roster, net, local, 0, dtype=dtype)
                    run = RunPlan(job, engine, rounds, 5, faults=Faults(0.2))
                    ends.append(played(run, rounds, where).params)
                apart = max(float((ends[0][k] - ends[1][k].cpu()).abs().max()) for k in ends[0])
                found.append(apart)
                repeats &= params_hash(ends[1]) == params_hash(ends[2])
            print(f"{model:14}{expression:28}{found[0]:20.1e}{found[1]:20.1e}{repeats!s:>9}", flush=True)


def speed(device: str, compiled: bool, models: list[str]) -> None:
    """Median over interleaved legs of one epoch; sequential eager is the client function on the GPU."""
    print(f"{'job':28}{'engine':24}{'samples/s':>12}{'ratio':>8}")
    for model, clients, batch, held in (
        ("small_cnn", 10, 32, 640),
        ("resnet9", 10, 8, 160),
        ("small_cnn", 10, 8, 320),
        ("small_cnn", 100, 10, 100),
        ("thesis_mnist", 100, 10, 100),
        ("resnet9", 10, 32, 320),
    ):
        if model not in models:
            continue
        shape = MODELS[model][0]
        fed = federation([held] * clients, shape)
        net = Net(build(model, shape, 10, 0))
        method, local = Method.parse("fedavg"), Local(batch=batch)
        engines = {"captured": FastGPU(device, block=clients)}
        engines["captured tf32"] = FastGPU(device, block=clients, precision="tf32")
        engines["captured bf16"] = FastGPU(device, block=clients, precision="bf16")
        if compiled and (model, clients, batch) in (("small_cnn", 10, 32), ("resnet9", 10, 8)):
            engines["compiled"] = FastGPU(device, block=clients, compile=True)
            engines["compiled tf32"] = FastGPU(device, block=clients, compile=True, precision="tf32")
            engines["compiled bf16"] = FastGPU(device, block=clients, compile=True, precision="bf16")
        roster, holdings = Roster.of(fed), Holdings(fed)
        for engine in engines.values():
            engine.hold(holdings)
        job = Job(method, roster, net, local, 0)
        round_inputs = RoundInputs(
            roster, {}, ClientStore(), Moment(0, clients=np.arange(clients)), cohort=clients
        )
        start = {k: v.to(device) for k, v in net.initial.items()}
        leg = Leg(np.arange(clients), start)

        def visit(
            name: str, job=job, engines=engines, leg=leg, round_inputs=round_inputs, clients=clients
        ) -> float:
            torch.backends.cuda.matmul.allow_tf32 = "tf32" in name or "bf16" in name
            torch.backends.cudnn.allow_tf32 = "tf32" in name or "bf16" in name
            torch.cuda.synchronize()
            began = time.perf_counter()
            update = engines[name].visit(job, leg, np.arange(clients), round_inputs)
            torch.cuda.synchronize()
            return int(update.samples.sum()) / (time.perf_counter() - began)

        device_data = DeviceData(fed.dataset, torch.float32, torch.device(device))
        task = LocalTraining(net, (), local, 0)

        def sequential(
            net=net,
            leg=leg,
            roster=roster,
            holdings=holdings,
            round_inputs=round_inputs,
            device_data=device_data,
            task=task,
            local=local,
        ) -> float:
            job = Job(Method.parse("fedavg"), roster, net, local, 0)
            one = replace(make_client_job(job, leg, 0, round_inputs, holdings))
            one.held, one.census = one.held.to(device), one.census.to(device)
            torch.cuda.synchronize()
            began = time.perf_counter()
            samples = train(task, device_data.pool, one).samples
            torch.cuda.synchronize()
            return samples / (time.perf_counter() - began)

        measured: dict[str, list[float]] = {"sequential eager": [], **{n: [] for n in engines}}
        for name in engines:
            visit(name)  # captures, and compiles where asked
        sequential()
        for _ in range(5):
            measured["sequential eager"].append(sequential())
            for name in engines:
                measured[name].append(visit(name))
        base = float(np.median(measured["sequential eager"]))
        for name, rates in measured.items():
            rate = float(np.median(rates))
            print(
                f"{f'{model} K={clients} B={batch}':28}{name:24}{rate:12,.0f}{rate / base:8.1f}", flush=True
            )


SEMS = [280, 210, 160, 120, 100, 80, 60, 45, 30, 12]
"""Samples of ten clients as skewed as SEM's: the largest sets a leg's time."""

LEGS = (
    ("resnet9", SEMS, Local(epochs=4, batch=8)),
    ("resnet9", [640] * 10, Local(epochs=1, batch=64)),
    ("vgg11", [320] * 16, Local(epochs=1, batch=32)),
    ("small_cnn", [640] * 10, Local(epochs=1, batch=32)),
)


def kernels(device: str) -> None:
    """Medians of five legs in bf16, both ways in turn; how far each way's change is from float32's, and how long the
    first leg takes, with compiling and capturing."""
    print(f"{'leg':28}{'way':34}{'first, s':>9}{'ms':>9}{'samples/s':>11}{'from fp32':>11}")
    for model, sizes, local in LEGS:
        found: dict[str, dict[str, torch.Tensor]] = {}
        fed = federation(sizes)
        roster, clients = Roster.of(fed), np.arange(len(sizes))
        job = Job(Method.parse("fedavg"), roster, Net(build(model, IMAGE, 10, 0)), local, 0)
        inputs = RoundInputs(roster, {}, ClientStore(), Moment(0, clients=clients), cohort=len(clients))
        leg = Leg(clients, {k: v.to(device) for k, v in job.net.initial.items()})
        for way, precision, given in (
            ("float32", "fp32", False),
            ("side by side", "bf16", False),
            ("kernels", "bf16", True),
        ):
            engine = FastGPU(device, precision=precision, kernels=given, stack=None if given else False)
            engine.hold(Holdings(fed))
            took = []
            for _ in range(1 if way == "float32" else 6):
                synchronize(torch.device(device))
                began = time.perf_counter()
                update = engine.visit(job, leg, clients, inputs)
                synchronize(torch.device(device))
                took.append(time.perf_counter() - began)
            found[way] = {k: (v - leg.start[k]).double() for k, v in update.params.items()}
            apart = sum(float((v - found["float32"][k]).square().sum()) for k, v in found[way].items())
            whole = sum(float(v.square().sum()) for v in found["float32"].values())
            ms, samples = 1e3 * float(np.median(took[-5:])), int(update.samples.sum())
            name = f"{model} K={len(sizes)} B={local.batch}"
            print(
                f"{name:28}{way:34}{took[0]:9.1f}{ms:9.1f}{1e3 * samples / ms:11,.0f}{(apart / whole) ** 0.5:11.1e}",
                flush=True,
            )
            engine.close()


def profile(device: str, samples: int = 20) -> None:
    """What one replayed step takes, and of which kernels it consists, for as many clients as there are graphs."""
    fed = federation(SEMS)
    roster, clients = Roster.of(fed), np.arange(len(SEMS))
    job = Job(
        Method.parse("fedavg"), roster, Net(build("resnet9", IMAGE, 10, 0)), Local(epochs=4, batch=8), 0
    )
    inputs = RoundInputs(roster, {}, ClientStore(), Moment(0, clients=clients), cohort=len(clients))
    engine = FastGPU(device, precision="bf16")
    engine.hold(Holdings(fed))
    leg = Leg(clients, {k: v.to(device) for k, v in job.net.initial.items()})
    for _ in range(2):
        engine.visit(job, leg, clients, inputs)
    graphs = engine._stages[-1].graphs
    assert isinstance(graphs, StackedGraphs)
    for (size, _), graph in sorted(graphs.graphs.items(), reverse=True):
        graphs.now.zero_()
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        for _ in range(samples):
            graph.replay()
        ended.record()
        torch.cuda.synchronize()
        graphs.now.zero_()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as found:
            for _ in range(samples):
                graph.replay()
            torch.cuda.synchronize()
        kernels = [e for e in found.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        busy: dict[str, list[float]] = {}
        for kernel in kernels:
            busy.setdefault(kernel.name, []).append(kernel.time_range.elapsed_us())
        step = 1e3 * began.elapsed_time(ended) / samples
        print(
            f"{size} clients: {step:.0f} microseconds a step, {len(kernels) / samples:.0f} kernels that take "
            f"{sum(map(sum, busy.values())) / samples:.0f}"
        )
        for name, took in sorted(busy.items(), key=lambda pair: -sum(pair[1])):
            print(f"{sum(took) / samples:9.1f} us  {len(took) / samples:5.1f} x  {name[:110]}")
    print(flush=True)


def rounds(device: str, count: int = 100) -> None:
    """Rounds of SEM's setting, on noise of CIFAR-10's shape, as a run plays them; then the host's part, profiled."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (20_000, *IMAGE), dtype=np.uint8), rng.permutation(np.arange(20_000) % 10)
    scale = {"mean": np.full(3, 120, np.float32), "std": np.full(3, 60, np.float32)}
    data = Dataset("noise", x[:10_000], y[:10_000], x[10_000:], y[10_000:], tuple("0123456789"), **scale)
    settings: dict[str, Any] = {
        "dataset": data, "partition": "dirichlet(0.1)", "clients": 100, "cohort": 10, "model": "resnet9",
        "epochs": 8, "batch": 8, "lr": 0.001, "evaluate": 5, "method": "sem", "device": device,
        "precision": "bf16", "progress": False,
    }  # fmt: skip
    began = time.perf_counter()
    lines = unskew.run(rounds=count, **settings).folder.lines
    whole = time.perf_counter() - began
    late = [line for line in lines if line["round"] > 10]
    for judged in (False, True):
        took = [x["wall_s"] for x in late if ("global_test_accuracy" in x) == judged]
        print(
            f"{'judged' if judged else 'others'}: {np.median(took):.4f} s a round, {np.mean(took):.4f} on average"
        )
    print(
        f"{count} rounds in {whole:.1f} s, {np.mean([x['wall_s'] for x in late]):.4f} s a round after the tenth"
    )
    host = cProfile.Profile()
    host.enable()
    unskew.run(rounds=30, **settings)
    host.disable()
    for order in ("tottime", "cumulative"):
        pstats.Stats(host).sort_stats(order).print_stats(40)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("agree", "speed", "kernels", "profile", "rounds"))
    parser.add_argument("methods", nargs="*", default=["fedavg"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--models", nargs="*", default=list(MODELS))
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--stacked", action="store_true", help="stack also few clients that convolve")
    given = parser.parse_args()
    if given.stacked:
        grouping.MANY_CLIENTS = 1
    if given.what == "agree":
        agree(given.methods or ["fedavg"], given.device, given.models)
    elif given.what == "kernels":
        kernels(given.device)
    elif given.what == "profile":
        profile(given.device)
    elif given.what == "rounds":
        rounds(given.device)
    else:
        speed(given.device, given.compile, given.models)

"""The ray engine beside the fast one and beside Flower's simulation, which runs on Ray too; and how it grows.

python -m benchmarks.ray_engine [JOBS]       rounds in turn of fast, ray and Flower: one node, all cores
python -m benchmarks.ray_engine nodes        time of a round and memory of a node against nodes of one core
python -m benchmarks.ray_engine clients      the same against the clients there are, two nodes of one core
python -m benchmarks.ray_engine memory       100,000 clients with SCAFFOLD on three nodes: fails where one passes 1 GiB
python -m benchmarks.ray_engine memories     what clients' memories cost on the way: FedAvg, SCAFFOLD and MOON
python -m benchmarks.ray_engine together     two runs on one cluster, and each of them alone
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from unskew.bench.compare import compare_job, contenders
from unskew.bench.jobs import JOBS
from unskew.bench.options import Options
from unskew.bench.ours import Ours
from unskew.bench.scaling import HOLDS, crowd
from unskew.core.store import ClientStore
from unskew.engines.cluster import actors
from unskew.engines.cluster.connect import load_ray
from unskew.machine.cores import cores
from unskew.machine.threads import single_threaded

OPTIONS = Options(device="cpu", rounds=20)

LIMIT = 2**30
"""Bytes that a node may hold in ``memory``."""

BUDGET = 32 * 2**20
"""Bytes of clients' memories that stay in the server's memory."""

STORE = 150 * 2**20
"""Bytes of each node's object store."""


@contextlib.contextmanager
def cluster(nodes: int, cpus: int = 1) -> Iterator[Any]:
    """So many nodes on this machine, and this process connected to them."""
    ray = load_ray()
    from ray.cluster_utils import Cluster

    each = {"num_cpus": cpus, "object_store_memory": STORE}
    found = Cluster(initialize_head=True, head_node_args={**each, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            found.add_node(**each)
        ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
        yield found
    finally:
        ray.shutdown()
        found.shutdown()


def throughput(names: str = "ABC", rounds: int = 5) -> dict[str, Any]:
    """Each job's rounds in turn by all three; the first of each is not counted."""
    found = {}
    for name in names:
        options = Options([JOBS[name]], ("fast", "ray"), rounds, ("flower",), "cpu", cores())
        scores = contenders(options)
        compare_job(JOBS[name], options, scores, [], lambda line: None)
        took = {s.name: statistics.median(s.seconds) for s in scores if s.seconds}
        found[name] = {f"{who}_s": round(seconds, 4) for who, seconds in took.items()}
        found[name]["ray_to_fast"] = round(took["fast"] / took["ray"], 3)
        for who in ("fast", "ray") if "flower" in took else ():
            found[name][f"{who}_to_flower"] = round(took["flower"] / took[who], 2)
        found[name] |= {s.name: s.problem or s.about for s in scores}
        print(json.dumps({name: found[name]}), flush=True)
    return found


@dataclass
class Watched:
    """What processes hold at most, looked at all the time; what is shared is counted by shares."""

    nodes: dict[str, int] = field(default_factory=dict)
    server: int = 0

    def look(self, found: Any) -> None:
        for number, node in enumerate(found.list_all_nodes()):
            raylet = node.all_processes["raylet"][0].process.pid
            name = f"node {number}"
            self.nodes[name] = max(self.nodes.get(name, 0), held_below(raylet))
        self.server = max(self.server, held(os.getpid()))

    @property
    def told(self) -> dict[str, Any]:
        return {
            "nodes_mb": [round(size / 1e6) for size in self.nodes.values()],
            "server_mb": round(self.server / 1e6),
        }


@contextlib.contextmanager
def watching(found: Any) -> Iterator[Watched]:
    """Look every half second, from a thread."""
    watched, ended = Watched(), threading.Event()

    def look() -> None:
        while not ended.wait(0.5):
            watched.look(found)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield watched
    finally:
        ended.set()
        thread.join()


def played(ours: Ours, rounds: int) -> float:
    """Seconds of a round: the median, the first not counted."""
    try:
        return statistics.median([ours.round()[0] for _ in range(rounds + 1)][1:])
    finally:
        ours.close()


def by_nodes(counts: tuple[int, ...] = (1, 2, 3), rounds: int = 4) -> list[dict[str, Any]]:
    """Job B over nodes of one core each, all on this machine."""
    rows = []
    for count in counts:
        with cluster(count) as found, watching(found) as watched:
            seconds = played(Ours.ready("ray", JOBS["B"], OPTIONS), rounds)
        rows.append({"nodes": count, "seconds": round(seconds, 3), **watched.told})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def by_clients(
    counts: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000), rounds: int = 10
) -> list[dict[str, Any]]:
    """100 clients a round out of so many, on two nodes of one core."""
    small = replace(JOBS["C"], model="linear", clients=1_000, samples=HOLDS, epochs=1)
    rows = []
    for count in counts:
        with cluster(2) as found, watching(found) as watched:
            ours = Ours.ready("ray", small, OPTIONS, federation=crowd(small, count))
            seconds = played(ours, rounds)
        rows.append({"clients": count, "seconds": round(seconds, 3), **watched.told})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def memory(rounds: int = 30, clients: int = 100_000, cohort: int = 1000) -> dict[str, Any]:
    """SCAFFOLD over three nodes: what every node's processes hold, and what the server does."""
    small = replace(JOBS["C"], model="linear", clients=1_000, samples=HOLDS, cohort=cohort, epochs=1)
    with cluster(3) as found, watching(found) as watched:
        options = replace(OPTIONS, rounds=rounds)
        ours = Ours.ready("ray", small, options, "scaffold", federation=crowd(small, clients))
        ours.state.clients = ClientStore(budget=BUDGET)
        times, growth = [], []
        try:
            for number in range(rounds):
                times.append(ours.round()[0])
                if number % 5 == 4:
                    growth.append(max(watched.told["nodes_mb"], default=0))
                if any(size > LIMIT for size in watched.nodes.values()):
                    raise SystemExit(f"a node holds more than {LIMIT} bytes: {watched.nodes}")
            store = ours.state.clients
            rows = len(store.rows["scaffold"])
            spilled = 0 if store.spill is None else store.spill.end
        finally:
            ours.close()
    return {
        "clients": clients,
        "remember": rows,
        "rounds": rounds,
        "cohort": cohort,
        "seconds_a_round": round(statistics.median(times), 3),
        **watched.told,
        "largest_node_mb_after_every_5_rounds": growth,
        "spilled_mb": round(spilled / 1e6),
    }


def memories(rounds: int = 5) -> list[dict[str, Any]]:
    """Job C, everybody in every second round: what a round takes longer where clients remember a model each."""
    job = replace(JOBS["C"], clients=200)
    rows = []
    for method in ("fedavg", "scaffold", "moon"):
        for far in (False, True):
            with cluster(2), elsewhere(far):
                fast = Ours.ready("fast", job, OPTIONS, method)
                ray = Ours.ready("ray", job, OPTIONS, method)
                took: dict[str, list[float]] = {"fast": [], "ray": []}
                try:
                    for _ in range(rounds + 2):
                        took["fast"].append(fast.round()[0])
                        took["ray"].append(ray.round()[0])
                finally:
                    fast.close()
                    ray.close()
            seconds = {who: round(statistics.median(times[2:]), 3) for who, times in took.items()}
            rows.append({"method": method, "as if on other machines": far, **seconds})
            print(json.dumps(rows[-1]), flush=True)
    return rows


@contextlib.contextmanager
def elsewhere(far: bool) -> Iterator[None]:
    """Actors here taken for actors on other machines: all that they make goes through the object store."""
    kept = actors.neighbour
    if far:
        actors.neighbour = lambda process, machine: None
    try:
        yield
    finally:
        actors.neighbour = kept


def together(rounds: int = 20) -> dict[str, Any]:
    """Job C twice: alone, and in two processes at once on the same cluster of two nodes."""
    with cluster(2) as found:
        alone = _in_processes(found.address, rounds, 1)
        both = _in_processes(found.address, rounds, 2)
    return {"alone_s": alone[0], "together_s": both}


def _in_processes(address: str, rounds: int, count: int) -> list[float]:
    """Seconds of a round of each of so many runs at once."""
    words = [sys.executable, "-m", "benchmarks.ray_engine", "one", address, str(rounds)]
    runs = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return [round(float(run.communicate()[0].splitlines()[-1]), 3) for run in runs]


def one(address: str, rounds: str) -> None:
    """A run of its own on a cluster, for ``together``; the rounds are many, so that both play most of the time."""
    load_ray().init(address=address, log_to_driver=False, logging_level="ERROR")
    print(played(Ours.ready("ray", JOBS["C"], OPTIONS), int(rounds)))


def held(process: int) -> int:
    """Memory of a process in bytes, what it shares counted by its share."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def held_below(process: int) -> int:
    """The same of a process and of all that it has started."""
    total = held(process)
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += held_below(int(child))
    return total


MEASURES: dict[str, Callable[[], Any]] = {
    "nodes": by_nodes,
    "clients": by_clients,
    "memory": memory,
    "memories": memories,
    "together": together,
}


def main(what: str = "ABC", *more: str) -> None:
    with single_threaded():
        if what == "one":
            one(*more)
            return
        began = time.perf_counter()
        measure = MEASURES.get(what) or partial(throughput, what, *map(int, more))
        found = measure()
    print(json.dumps({"cores": cores(), what: found, "took_s": round(time.perf_counter() - began)}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])

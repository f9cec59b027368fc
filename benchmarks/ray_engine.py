"""The ray engine beside the fast one: rounds of jobs A, B and C in turn, and SCAFFOLD with many clients on three nodes.

python -m benchmarks.ray_engine            rounds a second of ray as a share of fast's, one node, as many cores
python -m benchmarks.ray_engine memory     100,000 clients with SCAFFOLD on three nodes: the memory of each
python -m benchmarks.ray_engine nodes      time of a round of job B against nodes of one core
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from unskew.bench.jobs import JOBS, StandardJob
from unskew.bench.options import Options
from unskew.bench.ours import Ours
from unskew.bench.scaling import HOLDS, crowd
from unskew.core.store import ClientStore
from unskew.engines.cluster.connect import load_ray
from unskew.engines.cluster.engine import OverRay
from unskew.machine.cores import cores
from unskew.machine.threads import single_threaded

BUDGET = 32 * 2**20
"""Bytes of clients' memories that stay in the server's memory."""

STORE = 150 * 2**20
"""Bytes of each node's object store."""


def over_ray(job: StandardJob, options: Options, method: str = "fedavg", **more: Any) -> Ours:
    """A job made ready for the ray engine."""
    ours = Ours.ready("fast", job, options, method, **more)
    held = ours.noting.engine.holdings  # type: ignore[attr-defined]
    ours.noting.engine.close()
    ours.noting.engine = OverRay(record=True)
    ours.noting.engine.hold(held)
    return ours


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


def throughput(rounds: int = 5, names: str = "ABC") -> dict[str, Any]:
    """Each job's rounds in turn by both engines; the first of each is not counted."""
    options = Options(rounds=rounds, workers=cores())
    found = {}
    for name in names:
        job = JOBS[name]
        fast = Ours.ready("fast", job, options)
        ray = over_ray(job, options)
        taken: dict[str, list[float]] = {"fast": [], "ray": []}
        try:
            for number in range(rounds + 1):
                for who, ours in (("fast", fast), ("ray", ray)):
                    seconds = ours.round()[0]
                    if number:
                        taken[who].append(seconds)
        finally:
            fast.close()
            ray.close()
        medians = {who: statistics.median(times) for who, times in taken.items()}
        found[name] = {**medians, "share_of_fast": medians["fast"] / medians["ray"]}
    return found


def by_nodes(counts: tuple[int, ...] = (1, 2, 3), rounds: int = 4) -> list[dict[str, Any]]:
    """Job B over nodes of one core each, all on this machine."""
    rows = []
    for count in counts:
        with cluster(count):
            ours = over_ray(JOBS["B"], Options(rounds=rounds))
            try:
                times = [ours.round()[0] for _ in range(rounds + 1)][1:]
            finally:
                ours.close()
        rows.append({"nodes": count, "seconds": statistics.median(times)})
    return rows


def memory(clients: int = 100_000, rounds: int = 100, cohort: int = 1000) -> dict[str, Any]:
    """SCAFFOLD over three nodes: what every node's processes hold, and what the server does."""
    small = replace(JOBS["C"], model="linear", clients=1_000, samples=HOLDS, cohort=cohort, epochs=1)
    with cluster(3) as found:
        ours = over_ray(small, Options(rounds=rounds), "scaffold", federation=crowd(small, clients))
        ours.state.clients = ClientStore(budget=BUDGET)
        times, most, server = [], {}, 0
        try:
            for _ in range(rounds):
                times.append(ours.round()[0])
                for node in found.list_all_nodes():
                    raylet = node.all_processes["raylet"][0].process.pid
                    most[node.node_id[:6]] = max(most.get(node.node_id[:6], 0), held_below(raylet))
                server = max(server, held(os.getpid()))
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
        "seconds_a_round": statistics.median(times),
        "nodes_mb": {name: round(size / 1e6) for name, size in most.items()},
        "server_mb": round(server / 1e6),
        "spilled_mb": round(spilled / 1e6),
    }


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


def main(what: str = "throughput") -> None:
    began = time.perf_counter()
    with single_threaded():
        found = {"throughput": throughput, "memory": memory, "nodes": by_nodes}[what]()
    print(json.dumps({"cores": cores(), what: found, "took_s": round(time.perf_counter() - began)}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])

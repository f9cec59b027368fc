"""How the cost of a round grows: with the clients in it, with the clients there are, and with what they remember.

Each size of the last two is measured in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unskew.bench.compare import machine
from unskew.bench.jobs import JOBS, StandardJob
from unskew.bench.options import Options
from unskew.bench.ours import Ours
from unskew.bench.peak import threads
from unskew.bench.table import growth_tables
from unskew.core.store import ClientStore
from unskew.data.federation import Federation
from unskew.runs.choose_engine import device_of

COHORTS = (10, 30, 100, 300, 1000)
POPULATIONS = (1_000, 10_000, 100_000, 1_000_000)
HOLDS = 10
"""Samples a client of a large population holds; all point into one pool, so that only the lists grow."""

REMEMBERING = 100_000
"""Clients of the run with SCAFFOLD, whose memories must not all stay in this process."""
MEMORY_BUDGET = 256 * 2**20
"""Bytes of clients' memories that may stay."""

INTERRUPTED = 130
"""How a process ends that was interrupted."""

Tell = Callable[[str], None]


def growth(
    options: Options,
    tell: Tell = lambda line: None,
    done: Callable[[dict[str, Any]], None] = lambda report: None,
    *,
    cohorts: Sequence[int] = COHORTS,
    populations: Sequence[int] = POPULATIONS,
    remembering: int = REMEMBERING,
    rounds_remembering: int = 100,
) -> dict[str, Any]:
    """All three, as plain values; ``growth_text`` makes tables of them. The first round of each is not counted.

    ``done`` is shown the report of what there is so far as each table ends. Whoever interrupts gets what there is, with
    ``stopped`` in it.
    """
    report: dict[str, Any] = {"machine": machine(device_of(options.spec())), "cohort": []}
    settings = {k: v for k, v in asdict(options).items() if k not in ("jobs", "engines", "peers")}

    def all_populations() -> None:
        table = report["population"] = {"rows": [], "exponent": None}
        for clients in populations:
            tell(f"{clients:,} clients")
            _add(table, run_alone("population", clients=clients, **settings), "clients")

    def all_memories() -> None:
        tell(f"SCAFFOLD with {remembering:,} clients")
        longer = settings | {"rounds": rounds_remembering}
        report["memory"] = run_alone("memory", clients=remembering, **longer)

    playable = [job for job in options.jobs if job.available]
    tables: list[Callable[[], None]] = [
        partial(by_cohort, job, options, cohorts, tell, report["cohort"]) for job in playable
    ]
    for make in [*tables, all_populations, all_memories]:
        shown = len(growth_tables(report))
        try:
            make()
        except KeyboardInterrupt:
            report["stopped"] = "stopped"
        if len(growth_tables(report)) > shown:
            done(report)
        if "stopped" in report:
            break
    return report


def _add(table: dict[str, Any], row: dict[str, Any], by: str) -> None:
    """One more row, and the power by which seconds grow from the first row to it."""
    table["rows"].append(row)
    table["exponent"] = exponent([(r[by], r["seconds"]) for r in table["rows"]])


def by_cohort(
    job: StandardJob, options: Options, cohorts: Sequence[int], tell: Tell, tables: list[dict[str, Any]]
) -> None:
    """Time a round against the clients in it, one epoch each; a row at a time."""
    about = f"{job.model}, {job.samples} samples a client, E=1, B={job.batch}"
    tables.append({"job": job.name, "about": about, "rows": [], "exponent": None})
    for cohort in cohorts:
        tell(f"{job.name}: {cohort} clients a round")
        sized = replace(job, clients=max(cohorts), cohort=cohort, epochs=1)
        with _playing(Ours.ready("fast", sized, options)) as ours:
            played = [ours.round() for _ in range(options.rounds + 1)][1:]
        seconds = float(np.median([s for s, _ in played]))
        samples = float(np.mean([n for _, n in played]))
        _add(tables[-1], {"cohort": cohort, "seconds": seconds, "samples": samples}, "cohort")


def population(clients: int, **settings: Any) -> dict[str, Any]:
    """Time and memory of a round of 100 clients against how many there are."""
    options = Options(jobs=(), **settings)
    began = time.perf_counter()
    pool = replace(JOBS["B"], clients=1_000, samples=HOLDS, cohort=min(100, clients), epochs=1)
    federation = crowd(pool, clients)
    lists = list_bytes(federation)
    with _playing(Ours.ready("fast", pool, options, federation=federation)) as ours:
        ours.round()
        ready, first = time.perf_counter() - began, peak_memory()
        seconds = [ours.round()[0] for _ in range(options.rounds)]
        peak = peak_memory()
    return {
        "clients": clients,
        "list_bytes": lists,
        "ready": ready,
        "seconds": float(np.median(seconds)),
        "peak_bytes": peak,
        "added_bytes": peak - first,
    }


def memory(clients: int, **settings: Any) -> dict[str, Any]:
    """SCAFFOLD, whose clients each remember a control variate: what stays in memory and what goes to disk."""
    options = Options(jobs=(), **settings)
    small = replace(
        JOBS["C"], model="linear", clients=1_000, samples=HOLDS, cohort=min(1_000, clients // 2), epochs=1
    )
    federation = crowd(small, clients)
    rows = []
    with _playing(Ours.ready("fast", small, options, "scaffold", federation)) as ours:
        row = sum(ours.run.job.net.initial[k].nbytes for k in ours.run.job.net.trainable)
        ours.state.clients = ClientStore(budget=MEMORY_BUDGET)
        marks = {max(1, math.ceil(options.rounds * share / 4)) for share in (1, 2, 3, 4)}
        seconds: list[float] = []
        for number in range(1, options.rounds + 1):
            seconds.append(ours.round()[0])
            if number in marks:
                store: ClientStore = ours.state.clients
                known = len(store.rows["scaffold"])
                rows.append(
                    {
                        "round": number,
                        "clients": known,
                        "would_hold_bytes": known * row,
                        "held_bytes": store.held,
                        "disk_bytes": 0 if store.spill is None else store.spill.end,
                        "peak_bytes": peak_memory(),
                        "seconds": float(np.median(seconds)),
                    }
                )
                seconds = []
    return {"clients": clients, "cohort": small.cohort, "budget_bytes": MEMORY_BUDGET, "rows": rows}


def crowd(pool: StandardJob, clients: int) -> Federation:
    """Any number of clients over one pool of samples."""
    data = pool.federation().dataset
    pool_once = np.arange(len(data), dtype=np.min_scalar_type(len(data)))
    return Federation(data, np.resize(pool_once, clients * HOLDS), np.arange(clients + 1) * HOLDS)


def list_bytes(federation: Federation) -> int:
    """What it takes to say who holds what; an array that says several things counts once."""
    names = ("indices", "offsets", "sizes", "budget", "weigh", "pooled")
    arrays = {id(array): array for array in (getattr(federation, name) for name in names)}
    return sum(array.nbytes for array in arrays.values() if any(array.strides))


def exponent(points: Sequence[tuple[float, float]]) -> float | None:
    """The power of its first value with which the second grows, from the first point to the last: 1 is linear."""
    if len(points) < 2:
        return None
    (x0, y0), (x1, y1) = points[0], points[-1]
    return math.log(y1 / y0) / math.log(x1 / x0)


def peak_memory() -> int:
    """The most memory this process and its workers have had; memory they share is counted once."""
    with contextlib.suppress(OSError):
        workers = [_memory(child.pid or 0) for child in multiprocessing.active_children()]
        return _memory(os.getpid())["VmHWM"] + sum(w["VmHWM"] - w["RssShmem"] for w in workers)
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _memory(process: int) -> dict[str, int]:
    """Linux's account of a process's memory, in bytes."""
    pairs = (line.split(":") for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {name: int(rest.split()[0]) * 1024 for name, rest in pairs if rest.endswith(" kB")}


@contextlib.contextmanager
def _playing(ours: Ours) -> Any:
    with contextlib.closing(ours), threads(1):
        yield ours


def run_alone(what: str, **settings: Any) -> dict[str, Any]:
    """The same in a fresh process."""
    code = "import sys; from unskew.bench.scaling import answer; answer(*sys.argv[1:])"
    command = [sys.executable, "-c", code, what, json.dumps(settings)]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    done.check_returncode()
    return dict(json.loads(done.stdout))


def answer(what: str, settings: str) -> None:
    """What the fresh process does; Ctrl-C reaches it, too, and whoever started it says so."""
    try:
        found = {"population": population, "memory": memory}[what](**json.loads(settings))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    print(json.dumps(found))

"""What a round costs among a million clients, method by method: ``python -m benchmarks.methods_scale [METHOD ...]``.

Ten samples a client, all in one pool, so that only lists grow; 20 of them train in a round, one epoch, a linear
model, the loop engine. Every method and size has a process of its own, which makes its own lists, so that its memory is
its own. Both are there at a time and play their rounds in turn, so that what else the machine does hits both alike;
counted are the processor's seconds. The first round, in which some methods ask all clients, stands apart.
Wanted: a round among 1,000,000 clients costs at most a tenth more than one among 10,000. With ``--unequal`` clients
hold 5 to 15 samples, so that nothing of their sizes can be said once for all. ``--arrays`` lists what the lists of a
million take instead.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import resource
import signal
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import numpy as np

from unskew.bench.jobs import JOBS, StandardJob
from unskew.bench.scaling import HOLDS, crowd
from unskew.bench.table import align
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.core.round import play_round
from unskew.data.federation import Federation
from unskew.errors import InputError
from unskew.machine.threads import single_threaded
from unskew.runs.setup import set_up
from unskew.runs.spec import Spec

SIZES = (10_000, 1_000_000)
METHODS = (
    *(
        "fedavg",
        "fedprox(mu=0.1)",
        "fednova",
        "fedfv",
        "fedlc",
        "fedntd",
        "moon",
        "scaffold",
        "feddyn",
        "fedfa",
    ),
    *("sem", "phase_shift(2)", "fedaug(0.4)", "oversample", "kld", "fedgen", "ccvr", "balanced"),
)
PATIENCE = 240
"""Seconds after which a method and size is given up."""

MOST = 10_000
"""Rounds that are planned; only those that are counted are played."""


def unequal_crowd(pool: StandardJob, clients: int) -> Federation:
    """Clients of 5 to 15 samples out of one pool, ten on average."""
    data = pool.federation().dataset
    offsets = np.zeros(clients + 1, np.int32)
    np.cumsum(np.random.default_rng(0).integers(5, 16, clients, np.int32), out=offsets[1:])
    pool_once = np.arange(len(data), dtype=np.min_scalar_type(len(data)))
    return Federation(data, np.resize(pool_once, offsets[-1]), offsets)


def measure(method: str, clients: int, unequal: bool, to: Connection, told: Connection) -> None:
    """Set up, then play a round whenever told to, and say what it took; a process of its own."""
    signal.alarm(PATIENCE)
    pool = replace(JOBS["C"], clients=1_000, samples=HOLDS)
    began = time.process_time()
    try:
        spec = Spec(rounds=MOST, cohort=20, epochs=1, batch=5, model="linear", engine="loop")
        dealt = unequal_crowd(pool, clients) if unequal else crowd(pool, clients)
        setup = set_up(spec, dealt, None, Method.parse(method))
        del dealt
    except InputError as problem:
        to.send({"problem": str(problem)})
        return
    state = setup.state
    with single_threaded():
        state, _ = play_round(setup.run, state)
        to.send({"first": time.process_time() - began, "peak": _peak()})
        while told.recv():
            before, began = _peak(), time.process_time()
            state, _ = play_round(setup.run, state)
            to.send({"round": time.process_time() - began, "peak": _peak(), "added": _peak() - before})


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Playing:
    """A method among so many clients, in a process of its own."""

    def __init__(self, method: str, clients: int, unequal: bool):
        self.here, there = multiprocessing.Pipe(duplex=False)
        told, self.tell = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(target=measure, args=(method, clients, unequal, there, told))
        self.process.start()
        there.close()
        self.found = self.read()
        self.rounds: list[float] = []
        self.added = 0.0

    def read(self) -> dict[str, Any]:
        try:
            return dict(self.here.recv())
        except EOFError:
            return {"problem": f"not done after {PATIENCE} s"}

    def play(self) -> None:
        self.tell.send(True)
        said = self.read()
        if "problem" in said:
            self.found = said
            return
        self.rounds.append(said["round"])
        self.found["peak"] = said["peak"]
        self.added += said["added"]

    def close(self) -> dict[str, Any]:
        with contextlib.suppress(OSError):
            self.tell.send(False)
        self.process.join()
        middle = {"round": median(self.rounds), "added": self.added} if self.rounds else {}
        return self.found | middle


def compared(method: str, rounds: int, unequal: bool = False) -> list[dict[str, Any]]:
    """What the few and the many took, round about."""
    both = [Playing(method, clients, unequal) for clients in SIZES]
    for number in range(rounds):
        for one in both[:: 1 if number % 2 else -1]:
            if not any("problem" in other.found for other in both):
                one.play()
    return [one.close() for one in both]


def arrays(clients: int, unequal: bool) -> list[list[str]]:
    """What each array of a federation and its roster takes, by name; one that is there under several counts once."""
    make = unequal_crowd if unequal else crowd
    federation = make(replace(JOBS["C"], clients=1_000, samples=HOLDS), clients)
    roster = Roster.of(federation)
    named = {
        "indices": (federation.indices, "which samples of the pool each client holds, ten a client"),
        "offsets": (federation.offsets, "where a client's begin"),
        "sizes, budget, weigh": (
            roster.sizes,
            "how many samples it holds, spends and weighs; once for all where clients are equal",
        ),
        "pooled": (roster.pooled, "nobody is pooled, and that is said once"),
    }
    rows = []
    for name, (array, why) in named.items():
        held = array.nbytes if any(array.strides) else array.itemsize
        rows.append([name, f"{array.dtype} x {array.size:,}", f"{held / 2**20:.1f}", why])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--unequal", action="store_true", help="clients of 5 to 15 samples, not of ten each")
    parser.add_argument("--arrays", action="store_true", help="what the lists of a million clients take")
    flags = parser.parse_args()
    if flags.arrays:
        print("\n".join(align(["array", "type", "MiB", "what it is for"], arrays(SIZES[-1], flags.unequal))))
        return
    rows = []
    for method in flags.methods:
        few, many = compared(method, flags.rounds, flags.unequal)
        problem = few.get("problem") or many.get("problem")
        if problem:
            rows.append([method, *["-"] * 10, problem])
        else:
            forms = {"first": ".2f", "round": ".4f", "peak": ",.0f", "added": ".1f"}
            pairs = [f"{found[key]:{form}}" for key, form in forms.items() for found in (few, many)]
            ratios = [f"{many[key] / few[key]:.2f}" for key in ("round", "peak")]
            rows.append([method, *pairs, *ratios, ""])
        print("\n".join(align(HEADER, rows[-1:])), flush=True)
    print("\n".join(["", *align(HEADER, rows)]))


HEADER = [
    *(
        "method",
        "first, 10k",
        "1M",
        "s a round, 10k",
        "1M",
        "peak MiB, 10k",
        "1M",
        "added by rounds, 10k",
        "1M",
    ),
    *("ratio of times", "of peaks", ""),
]


if __name__ == "__main__":
    main()

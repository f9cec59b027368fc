"""What a round costs among a million clients, method by method: ``python -m benchmarks.methods_scale [METHOD ...]``.

Ten samples a client, all in one pool, so that only lists grow; 20 of them train in a round, one epoch, a linear
model, the loop engine. Every method and size has a process of its own, so that its memory is its own. Counted are the
processor's seconds, which a busy machine changes less than the clock's; the first round, in which some methods ask all
clients, stands apart.
Wanted: a round among 1,000,000 clients costs at most a tenth more than one among 10,000.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import signal
import time
from dataclasses import replace
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

from unskew.bench.jobs import JOBS
from unskew.bench.scaling import HOLDS, crowd
from unskew.bench.table import align
from unskew.core.method import Method
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
    *("sem", "phase_shift(2)", "fedaug(0.4)", "oversample", "kld", "fedgen", "ccvr", "fedmix(group=2)"),
)
PATIENCE = 60
"""Seconds after which a method and size is given up."""


def measure(method: str, held: Federation, rounds: int, to: Connection) -> None:
    """Play some rounds and send what they took; a process of its own."""
    signal.alarm(PATIENCE)
    began = time.process_time()
    try:
        spec = Spec(rounds=rounds + 1, cohort=20, epochs=1, batch=5, model="linear", engine="loop")
        setup = set_up(spec, held, None, Method.parse(method))
    except InputError as problem:
        to.send({"problem": str(problem)})
        return
    state, spent = setup.state, []
    with single_threaded():
        state, _ = play_round(setup.run, state)
        first = time.process_time() - began
        for _ in range(rounds):
            began = time.process_time()
            state, _ = play_round(setup.run, state)
            spent.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    to.send({"first": first, "round": median(spent), "peak": peak})


def found_of(method: str, held: Federation, rounds: int) -> dict[str, Any]:
    """What a process measured, or why it did not."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=measure, args=(method, held, rounds, there))
    process.start()
    there.close()
    try:
        found: dict[str, Any] = here.recv()
    except EOFError:
        found = {"problem": f"not done after {PATIENCE} s"}
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--rounds", type=int, default=9)
    flags = parser.parse_args()
    pool = replace(JOBS["C"], clients=1_000, samples=HOLDS)
    crowds = {clients: crowd(pool, clients) for clients in SIZES}
    rows = []
    for method in flags.methods:
        few, many = (found_of(method, crowds[clients], flags.rounds) for clients in SIZES)
        problem = few.get("problem") or many.get("problem")
        if problem:
            rows.append([method, *["-"] * 7, problem])
        else:
            forms = {"first": ".2f", "round": ".4f", "peak": ",.0f"}
            pairs = [f"{found[key]:{form}}" for key, form in forms.items() for found in (few, many)]
            rows.append([method, *pairs, f"{many['round'] / few['round']:.2f}", ""])
        print("\n".join(align(HEADER, rows[-1:])), flush=True)
    print("\n".join(["", *align(HEADER, rows)]))


HEADER = ["method", "first, 10k", "1M", "s a round, 10k", "1M", "peak MiB, 10k", "1M", "ratio", ""]


if __name__ == "__main__":
    main()

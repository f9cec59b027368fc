"""What a view of a client's own data costs: ``python -m benchmarks.views_scale``.

Sixteen samples a client of four classes, from a thousand clients to a hundred thousand; 20 of them train in a round.
Wanted: with ``fedaug``, which alters copies of the rare classes of those who are visited, a round of 100,000 clients
takes at most twice as long as with ``fedavg``, and no longer than one of 1,000.
"""

from __future__ import annotations

import argparse
import sys
import time
from statistics import median

import numpy as np

from unskew.core.method import Method
from unskew.core.round import play_round
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation
from unskew.machine.threads import single_threaded
from unskew.runs.setup import set_up
from unskew.runs.spec import Spec
from unskew.seeds import generator

CLIENTS = (1_000, 10_000, 100_000)
SAMPLES, CLASSES, COHORT, TIMES = 16, 4, 20, 2.0
METHODS = ("fedavg", "fedaug(0.4)", "oversample")


def federation(clients: int) -> Federation:
    """Every client holds ten samples of one class and two of each other one."""
    own = np.arange(clients) % CLASSES
    y = np.concatenate(
        [np.repeat(own[:, None], 10 - 2, 1), np.tile(np.arange(CLASSES), (clients, 2))], 1
    ).ravel()
    x = generator(0, "views").integers(0, 255, (len(y), 1, 12, 12), dtype=np.uint8)
    names = tuple("abcd")
    scale = {"mean": np.full(1, 127, np.float32), "std": np.full(1, 74, np.float32)}
    data = Dataset("views", x, y, x[:64], y[:64], names, "image", **scale)
    return Federation(data, np.arange(len(y)), SAMPLES * np.arange(clients + 1))


def seconds(held: Federation, rounds: int) -> dict[str, float]:
    """The median round of each method after the first, interleaved, since the machine may be shared."""
    spec = Spec(
        rounds=rounds, cohort=COHORT, epochs=5, batch=8, model="mlp(hidden=[64])", engine="fast", workers=1
    )
    setups = {method: set_up(spec, held, None, Method.parse(method)) for method in METHODS}
    states = {method: setup.state for method, setup in setups.items()}
    spent: dict[str, list[float]] = {method: [] for method in METHODS}
    with single_threaded():
        for _ in range(rounds):
            for method, setup in setups.items():
                began = time.perf_counter()
                states[method], _ = play_round(setup.run, states[method])
                spent[method].append(time.perf_counter() - began)
    for setup in setups.values():
        setup.run.engine.close()
    return {method: median(times[1:]) for method, times in spent.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="stop at 10,000 clients")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    print(f"{SAMPLES} samples a client, {COHORT} clients a round; the median round")
    print(
        f"{'clients':>8} "
        + " ".join(f"{method + ' (ms)':>18}" for method in METHODS)
        + f" {'fedaug/fedavg':>14}"
    )
    met = True
    for clients in (c for c in CLIENTS if not given.quick or c <= 10_000):
        found = seconds(federation(clients), given.rounds)
        times = found["fedaug(0.4)"] / found["fedavg"]
        row = " ".join(f"{1000 * found[method]:>18.1f}" for method in METHODS)
        print(f"{clients:>8,} {row} {times:>14.2f}", flush=True)
        met = met and times <= TIMES
    print(f"wanted: fedaug takes at most {TIMES:g} times as long as fedavg: {'met' if met else 'NOT met'}")
    sys.exit(not met)


if __name__ == "__main__":
    main()

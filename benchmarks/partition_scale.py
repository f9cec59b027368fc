"""How partitions grow: ``python -m benchmarks.partition_scale``.

Ten samples a client, from ten thousand clients to a million, each size in a process of its own so that its peak
memory is its own. Wanted: a million clients over ten million labels by dirichlet(0.1), made and measured, in
under 60 s and 6 GiB on two cores, in time that grows nearly linearly. Then every other family at the largest size.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np

CLIENTS = (10_000, 31_623, 100_000, 316_228, 1_000_000)
FAMILIES = (
    "iid",
    "limit_labels(2, f=0.9)",
    "q(0.8)",
    "limit_labels_q(2, 0.9)",
    "dirichlet(1e-6)",
    "dirichlet_client(0.2)",
    "emd(1.4)",
    "labels(3)",
    "shards(2)",
    "mixed(labels(1), iid, share=0.95)",
    "quantity(0.5)",
)
SECONDS, GIB = 60, 6


def measure(expression: str, clients: int) -> dict[str, float]:
    """Make one partition and measure its skew; the best of three, for the machine may be shared."""
    from unskew.data.partition import partition
    from unskew.metrics import skew
    from unskew.seeds import generator

    labels = generator(0, "benchmark labels").integers(0, 10, 10 * clients)
    make = measured = processor = float("inf")
    for _ in range(3):
        start, spent = time.perf_counter(), time.process_time()
        part = partition(labels, expression, clients)
        made = time.perf_counter()
        found = skew(part.counts)
        make, measured = min(make, made - start), min(measured, time.perf_counter() - made)
        processor = min(processor, time.process_time() - spent)
    conserved = np.bincount(part.indices, minlength=len(labels))
    assert conserved.min() == conserved.max() == 1
    return {
        "make": make,
        "measure": measured,
        "processor": processor,
        # macOS counts bytes, Linux kibibytes
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        / (2**30 if sys.platform == "darwin" else 2**20),
        "emd": found.emd,
        "moves": part.record["moves"],
    }


def alone(expression: str, clients: int) -> dict[str, float]:
    """The same in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.partition_scale", "--one", expression, str(clients)]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--one", nargs=2, metavar=("EXPRESSION", "CLIENTS"), help="one size, as JSON")
    parser.add_argument("--quick", action="store_true", help="stop at 100,000 clients")
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(measure(chosen.one[0], int(chosen.one[1]))))
        return
    sizes = [c for c in CLIENTS if not chosen.quick or c <= 100_000]
    header = f"{'clients':>9} {'make s':>7} {'measure s':>9} {'GiB':>5} {'CPU us each':>11} {'growth':>7} {'EMD':>6}"
    print(f"dirichlet(0.1), 10 samples a client\n{header}")
    first: tuple[int, float] | None = None
    last: tuple[int, float] | None = None
    for clients in sizes:
        row = alone("dirichlet(0.1)", clients)
        total, spent = row["make"] + row["measure"], row["processor"]
        # 1.00 is linear: the exponent of processor time in the number of clients
        growth = "" if last is None else f"{np.log(spent / last[1]) / np.log(clients / last[0]):.2f}"
        print(
            f"{clients:>9,} {row['make']:>7.2f} {row['measure']:>9.2f} {row['gib']:>5.2f} "
            f"{1e6 * spent / clients:>11.2f} {growth:>7} {row['emd']:>6.3f}"
        )
        last = clients, spent
        first = first or last
    assert first is not None
    overall = np.log(spent / first[1]) / np.log(clients / first[0])
    print(f"growth from {first[0]:,} to {clients:,} clients: time ~ clients^{overall:.2f}")
    met = total < SECONDS and row["gib"] < GIB
    print(f"wanted: under {SECONDS} s and {GIB} GiB: {'met' if met else 'NOT met'}\n")
    print(f"{sizes[-1]:,} clients\n{'family':<36} {'make s':>7} {'GiB':>5} {'EMD':>6} {'moved':>8}")
    for expression in FAMILIES:
        row = alone(expression, sizes[-1])
        print(
            f"{expression:<36} {row['make']:>7.2f} {row['gib']:>5.2f} {row['emd']:>6.3f} {row['moves']:>8,.0f}"
        )
    sys.exit(not met)


if __name__ == "__main__":
    main()

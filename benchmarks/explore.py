"""How long the partition explorer takes to answer: dealt, measured, judged and drawn, on the server's side.

python benchmarks/explore.py [DATASET] [CLIENTS]: the median of 20 answers, each with another alpha, in milliseconds
of the clock and of the processor: on a busy machine the two differ.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

from unskew.studio.explore import Asked, Explorer


def main() -> None:
    data = sys.argv[1] if len(sys.argv) > 1 else "digits"
    clients = sys.argv[2] if len(sys.argv) > 2 else "100"
    explorer, took, worked = Explorer(Path()), [], []
    for at in range(21):
        asked = Asked.read({"data": data, "clients": clients, "p.alpha": f"{0.05 * 1.2**at:.4g}"})
        start, before = time.perf_counter(), time.process_time()
        explorer.explore(asked)
        took.append(1000 * (time.perf_counter() - start))
        worked.append(1000 * (time.process_time() - before))
    rest, cpu = sorted(took[1:]), statistics.median(worked[1:])  # the first reads the data
    median = statistics.median(rest)
    print(
        f"{data}, {clients} clients: median {median:.0f} ms (processor {cpu:.0f}), slowest of 20 {rest[-1]:.0f} ms"
    )


if __name__ == "__main__":
    main()

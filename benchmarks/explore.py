"""How long the partition explorer takes to answer: dealt, measured, judged and drawn, on the server's side.

python benchmarks/explore.py [DATASET] [CLIENTS]: the median of 20 answers, each with another alpha, in milliseconds.
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
    explorer, took = Explorer(Path()), []
    for at in range(21):
        asked = Asked.read({"data": data, "clients": clients, "p.alpha": f"{0.05 * 1.2**at:.4g}"})
        start = time.perf_counter()
        explorer.explore(asked)
        took.append(1000 * (time.perf_counter() - start))
    rest = sorted(took[1:])  # the first reads the data
    print(
        f"{data}, {clients} clients: median {statistics.median(rest):.0f} ms, slowest of 20 {rest[-1]:.0f} ms"
    )


if __name__ == "__main__":
    main()

"""How DACA grows: ``python -m benchmarks.daca_scale``.

Clusters for 500 to 4,000 clients on 10 and 100 classes: drawing closeness and rates, forming clusters, sharing the
samples. Wanted: 2,000 clients in under ten seconds.
"""

from __future__ import annotations

import time

import numpy as np

from unskew.core.holdings import Holdings
from unskew.core.roster import Roster
from unskew.data.dataset import Dataset
from unskew.data.partition import partition
from unskew.parts.prepare import Cec, Daca, Scc
from unskew.seeds import generator

SECONDS, CLIENTS = 10, 2000


def main() -> None:
    print("clients  classes  method            seconds  heads  EMD before  after")
    for clients in (500, 1000, CLIENTS, 4000):
        for classes in (10, 100):
            labels = generator(0, "benchmark labels").integers(0, classes, 60 * clients)
            x = np.broadcast_to(np.uint8(0), (len(labels), 1, 28, 28))  # no pixel is looked at
            names = tuple(map(str, range(classes)))
            data = Dataset("labels", x, labels, x[:1], labels[:1], names)
            held = partition(data, "mixed(labels(1), iid, share=0.95)", clients).federation(data)
            for part in (Daca(), Daca(join="gain"), Scc(), Cec()):
                began = time.perf_counter()
                roster, holdings = Roster.of(held), Holdings(held)
                sharing = part.transfers(roster, 10, 0)
                told = part.shared(sharing, roster, holdings.transfer(part, sharing, roster, 0))
                spent = time.perf_counter() - began
                name = part.name + ("(join=gain)" if getattr(part, "join", "") == "gain" else "")
                print(
                    f"{clients:7,}  {classes:7}  {name:16}  {spent:7.2f}  {told['clusters']:5}  "
                    f"{told['emd_before']:10.3f}  {told['emd_after']:5.3f}",
                    flush=True,
                )
                assert clients > CLIENTS or spent < SECONDS, f"{clients} clients take {spent:.1f} s"


if __name__ == "__main__":
    main()

"""The picture of docs/cluster.md: ``python docs/cluster_drawings.py`` writes it.

Above what was measured on one machine, below a model in bytes and flops of what it cannot show.
"""

from __future__ import annotations

from pathlib import Path

import altair as alt

from unskew.bench.jobs import CLASSES, JOBS
from unskew.core.net import Net
from unskew.core.types import nbytes
from unskew.models import build
from unskew.report.drawing import save_chart
from unskew.report.theme import PALETTE

CORES, RATE = 16, 5e9
"""Cores of a node, and multiply-adds a second that a core reaches on small models."""
LINK = 1.25e9
"""Bytes a second of the server's link: 10 Gbit/s."""
MESSAGE = 5e-4
"""Seconds that the server spends on a message, with the answer to it."""
BUNDLE = 8
"""Clients whose work travels in one message."""
BUDGET = 2 * 2**30
"""Bytes of clients' memories that stay in the server's memory."""
BASE, ACTOR = 0.4e9, 0.25e9
"""Bytes that Ray itself takes on a node, and an actor with torch in it."""
CLIENT = 270
"""Bytes of lists for a client of ten samples, at the server and at each node: the growth in ``BY_CLIENTS``."""

BY_NODES = {1: 5.38, 2: 3.02, 3: 3.08}
"""Seconds of a round of job B by nodes of one core, on a machine of two: ``python -m benchmarks.ray_engine nodes``."""
BY_CLIENTS = {1_000: (447, 399), 10_000: (453, 401), 100_000: (482, 414), 1_000_000: (713, 674)}
"""(the larger node, the server) in MB by all clients: ``python -m benchmarks.ray_engine clients``."""


ORDER = ("server, in memory", "a node", "server, on disk")
"""Who has which colour, above as below."""


def model() -> tuple[float, int]:
    """(multiply-adds of a client's visit, bytes of the model) of job B."""
    job = JOBS["B"]
    net = Net(build(job.model, job.shape, CLASSES, 0))
    return 3.0 * job.samples * job.epochs * net.multiply_adds(job.shape), nbytes(net.initial)


def seconds(nodes: int, cohort: int) -> float:
    """Training is shared by all cores; models come back, and messages go, through the one server."""
    work, size = model()
    training = cohort * work / (nodes * CORES * RATE)
    server = nodes * size / LINK + cohort * size / LINK + cohort / BUNDLE * MESSAGE
    return max(training, server)


def memory(clients: float, nodes: int = 1000) -> dict[str, float]:
    """Bytes at the server in memory and on disk, and at a node, for SCAFFOLD with a cohort of 10,000."""
    _, size = model()
    lists = clients * CLIENT
    cohort = min(clients, 10_000)
    return {
        "server, in memory": BASE + lists + min(BUDGET, clients * size) + 3 * cohort * size,
        "server, on disk": max(0.0, clients * size - BUDGET),
        "a node": BASE + CORES * ACTOR + lists + 4 * cohort * size / nodes,
    }


def draw(path: Path) -> None:
    steps = [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1000]
    times = [
        {"nodes": n, "seconds": seconds(n, cohort), "clients a round": f"{cohort:,}"}
        for cohort in (1_000, 10_000, 100_000)
        for n in steps
    ]
    sizes = [
        {"clients": 10**e, "gigabytes": size / 1e9, "where": where}
        for e in (3, 3.5, 4, 4.5, 5, 5.5, 6, 6.5, 7)
        for where, size in memory(10**e).items()
        if size > 1e7
    ]

    measured_times = [
        {"nodes": n, "seconds": taken, "clients a round": "100"} for n, taken in BY_NODES.items()
    ]
    measured_sizes = [
        {"clients": clients, "gigabytes": size / 1e3, "where": where}
        for clients, sizes in BY_CLIENTS.items()
        for where, size in zip(("a node", "server, in memory"), sizes, strict=True)
    ]

    def lines(
        rows: list[dict[str, object]], x: str, y: str, by: str, title: str, log: bool = True
    ) -> alt.Chart:
        across = alt.X(f"{x}:Q").axis(title=x, grid=False, tickCount=5, format="~s")
        up = alt.Y(f"{y}:Q").axis(title=y, tickCount=5, format="~g")
        names = list(dict.fromkeys(str(row[by]) for row in rows))
        colours = [PALETTE[ORDER.index(name) if name in ORDER else at] for at, name in enumerate(names)]
        if x == "nodes" and not log:
            across = (
                alt.X(f"{x}:Q")
                .axis(title=x, grid=False, values=[1, 2, 3], format="d")
                .scale(domain=[0.8, 3.2])
            )
        else:
            across = across.scale(type="log")
        return (
            alt.Chart(alt.InlineData(values=rows), width=330, height=190, title=title)
            .mark_line(point=alt.OverlayMarkDef(size=26))
            .encode(
                x=across,
                y=up.scale(type="log") if log else up.scale(domainMin=0),
                color=alt.Color(f"{by}:N", sort=None)
                .scale(domain=names, range=colours)
                .legend(title=by, orient="bottom"),
            )
        )

    measured = lines(
        measured_times, "nodes", "seconds", "clients a round", "Time of a round, measured", False
    )
    measured |= lines(measured_sizes, "clients", "gigabytes", "where", "Memory with FedAvg, measured", False)
    modelled = lines(times, "nodes", "seconds", "clients a round", "Time of a round, a model")
    modelled |= lines(sizes, "clients", "gigabytes", "where", "Memory with SCAFFOLD, a model")
    whole = measured.resolve_scale(color="independent") & modelled.resolve_scale(color="independent")
    save_chart(whole.resolve_scale(color="independent"), path, "How large it goes")


if __name__ == "__main__":
    draw(Path(__file__).parent / "img" / "cluster.png")
    for n in (1, 3, 10, 100, 1000):
        print(n, *(f"{seconds(n, c):.2f}" for c in (1_000, 10_000, 100_000)))
    for e in (5, 6, 7):
        print(10**e, {k: f"{v / 1e9:.2f} GB" for k, v in memory(10**e).items()})

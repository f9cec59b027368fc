"""The picture of docs/cluster.md, a model in bytes and flops: ``python docs/cluster_drawings.py`` writes it."""

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
HELD = 10
"""Samples of a client in the panel of memory: 8 bytes each in the lists of who holds what."""


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
    lists = clients * (8 * HELD + 40)
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

    def lines(rows: list[dict[str, object]], x: str, y: str, by: str, title: str) -> alt.Chart:
        return (
            alt.Chart(alt.InlineData(values=rows), width=330, height=230, title=title)
            .mark_line(point=alt.OverlayMarkDef(size=26))
            .encode(
                x=alt.X(f"{x}:Q").scale(type="log").axis(title=x, grid=False, tickCount=5, format="~s"),
                y=alt.Y(f"{y}:Q").scale(type="log").axis(title=y, tickCount=5, format="~g"),
                color=alt.Color(f"{by}:N", sort=None)
                .scale(range=list(PALETTE[:3]))
                .legend(title=by, orient="bottom"),
            )
        )

    left = lines(times, "nodes", "seconds", "clients a round", "Time of a round (model)")
    right = lines(sizes, "clients", "gigabytes", "where", "Memory with SCAFFOLD (model)")
    save_chart((left | right).resolve_scale(color="independent"), path, "How large it goes")


if __name__ == "__main__":
    draw(Path(__file__).parent / "img" / "cluster.png")
    for n in (1, 3, 10, 100, 1000):
        print(n, *(f"{seconds(n, c):.2f}" for c in (1_000, 10_000, 100_000)))
    for e in (5, 6, 7):
        print(10**e, {k: f"{v / 1e9:.2f} GB" for k, v in memory(10**e).items()})

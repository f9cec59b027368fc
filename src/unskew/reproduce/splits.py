"""How skewed published splits are: the thesis's table 3.1 and figures 3.1 to 3.3, SEM's sparsity and scarcity.

Computed of label counts, seed by seed; no data set is needed, and nothing is trained.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unskew.arrays import Array
from unskew.data.partition import partition
from unskew.metrics import skew, system_emd
from unskew.report.drawing import save_chart
from unskew.report.theme import PALETTE
from unskew.reproduce.daca_sharing import MNIST
from unskew.reproduce.making import Row, Wanted

SEEDS = 20
RELATED = (  # paper, sampler as printed, expression, classes, clients, EMD as printed
    ("FLTrust", "q(0.5)", "q(0.5)", 10, 20, "0.8"),
    ("TiFL", "ll(2)", "limit_labels(2)", 10, 20, "1.6"),
    ("TiFL", "ll(5)", "limit_labels(5)", 10, 20, "1.0"),
    ("SkewScout", "ll(2, 0.2)", "limit_labels(2, 0.2)", 10, 20, "0.3"),
    ("SkewScout", "ll(2, 0.6)", "limit_labels(2, 0.6)", 10, 20, "1.0"),
    ("SkewScout", "ll(2, 0.8)", "limit_labels(2, 0.8)", 10, 20, "1.3"),
    ("SCAFFOLD", "ll(2, 1.0), M = 62", "limit_labels(2)", 62, 62, "1.9"),
    ("SCAFFOLD", "ll(2, 0.9), M = 62", "limit_labels(2, 0.9)", 62, 62, "1.7"),
    ("FedProx study", "Dir10(0.5)", "dirichlet(0.5)", 10, 10, "0.9"),
    ("FedProx study, STC, data sharing", "ll(1)", "limit_labels(1)", 10, 20, "1.8"),
    ("FedProx study, STC, data sharing, FedCS, FedMix", "ll(2)", "limit_labels(2)", 10, 20, "1.6"),
    ("FedProx study, STC", "ll(3)", "limit_labels(3)", 10, 20, "1.2"),
    ("FedNova", "Dir16(0.1)", "dirichlet(0.1)", 10, 16, "1.4"),
    ("FedMix", "ll(20), M = 100", "limit_labels(20)", 100, 100, "1.6"),
)
CIFAR10, CIFAR100 = np.full(10, 5000), np.full(100, 500)
SEM_SPLITS = (  # table, data, label counts, clients, alpha, U, sparsity and scarcity as printed
    *(("I", "MNIST", MNIST, 100, a, 0.2, sp, None) for a, sp in ((0.1, 0.63), (0.3, 0.33), (0.5, 0.20))),
    *(("I", "CIFAR-10", CIFAR10, 100, a, 0.2, sp, None) for a, sp in ((0.1, 0.61), (0.3, 0.38), (0.5, 0.22))),
    *(("I", "CIFAR-100", CIFAR100, 100, a, 0.2, sp, None) for a, sp in ((0.1, 0.78), (0.3, 0.64), (0.5, 0.58))),
    *(("II", "CIFAR-10", CIFAR10, 100, 0.1, u, sp, sc) for u, sp, sc in (
        (0.05, 0.72, 0.85), (0.10, 0.67, 0.58), (0.15, 0.63, 0.45), (0.20, 0.61, 0.30), (1.0, 0.54, 0.08))),
    *(("III", "CIFAR-10", CIFAR10, n, 0.5, 0.8, sp, sc) for n, sp, sc in (
        (500, 0.23, 0.21), (1000, 0.34, 0.74), (1500, 0.40, 0.94), (2000, 0.45, 0.99))),
)  # fmt: skip


def table31(wanted: Wanted) -> list[Row]:
    """The EMD column of the thesis's table 3.1, recomputed on balanced labels."""
    rows = []
    for paper, sampler, expression, classes, clients, printed in RELATED[:1] if wanted.quick else RELATED:
        labels = _balanced(classes, 5000 if classes == 10 else 1000)
        emds = [system_emd(partition(labels, expression, clients, s).counts) for s in _seeds(wanted)]
        spread = f" ± {np.std(emds):.2f}" if np.std(emds) > 0.005 else ""
        ours = f"{np.mean(emds):.2f}{spread}"
        rows.append({"paper": paper, "sampler": sampler, "EMD, printed": printed, "EMD, ours": ours})
    return rows


def sem_splits(wanted: Wanted) -> list[Row]:
    """SEM's sparsity and scarcity, recomputed: the mean over seeds, and how much one draw varies."""
    rows = []
    for table, name, counts, clients, alpha, used, sparse, scarce in SEM_SPLITS[
        : 1 if wanted.quick else None
    ]:
        labels = np.repeat(np.arange(len(counts)), counts)
        found = [
            skew(partition(labels, f"dirichlet({alpha})", clients, seed, fraction=used).counts)
            for seed in _seeds(wanted, 2 * SEEDS)
        ]
        rows.append(
            {
                "table": table,
                "data": name,
                "clients": f"{clients:,}",
                "α": f"{alpha:g}",
                "U": f"{used:.0%}",
                "sparsity, printed": f"{sparse:.2f}",
                "ours": _mean([f.sparsity for f in found]),
                "scarcity, printed": "–" if scarce is None else f"{scarce:.2f}",
                "ours, n < 50": "–" if scarce is None else _mean([f.scarcity["below"] for f in found]),
                "ours, n ≤ 50": "–" if scarce is None else _mean([f.scarcity["at_most"] for f in found]),
            }
        )
    return rows


def figure31(wanted: Wanted) -> list[Row]:
    """EMD of the Dirichlet split for alpha, M and K: the mean over seeds."""
    rows = []
    values = (2, 50) if wanted.quick else (2, 3, 5, 7, 10, 15, 20, 30, 50)
    for alpha in (0.1, 0.5, 1.0, 5.0):
        for varied in ("classes M (K = 20)", "clients K (M = 20)"):
            for value in values:
                classes, clients = (value, 20) if varied.startswith("classes") else (20, value)
                emds = [system_emd(_dirichlet(alpha, classes, clients, s)) for s in _seeds(wanted)]
                mean, sd = (round(float(v), 4) for v in (np.mean(emds), np.std(emds)))
                rows.append({"varied": varied, "value": value, "alpha": f"{alpha:g}", "emd": mean, "sd": sd})
    return rows


def figure32(wanted: Wanted) -> list[Row]:
    """How large clients are under a Dirichlet split, against an equal share: percentiles."""
    return _boxes(wanted, "size")


def figure33(wanted: Wanted) -> list[Row]:
    """How skewed single clients are under a Dirichlet split: percentiles."""
    return _boxes(wanted, "emd")


def _boxes(wanted: Wanted, quantity: str) -> list[Row]:
    rows = []
    for alpha in (0.1, 0.5, 1.0, 5.0, 10.0, 100.0):
        for clients in (10, 100) if wanted.quick else (10, 20, 50, 100):
            values: list[float] = []
            for seed in range(2 if wanted.quick else max(2, 400 // clients)):
                found = skew(_dirichlet(alpha, 10, clients, seed))
                own = found.sizes / found.sizes.mean() if quantity == "size" else found.emd_per_client
                values += own[~np.isnan(own)].tolist()
            five = np.percentile(values, [1, 25, 50, 75, 99]).round(4).tolist()
            names = ("low", "first", "median", "third", "high")
            rows.append({"alpha": f"{alpha:g}", "clients": clients, **dict(zip(names, five, strict=True))})
    return rows


def draw_figure31(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    import altair as alt

    values = [{**row, "low": row["emd"] - row["sd"], "high": row["emd"] + row["sd"]} for row in rows]
    axis = alt.X("value:Q").scale(type="log", domain=[2, 50], nice=False)
    colour = alt.Color("alpha:N").scale(range=list(PALETTE[:4]))
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=axis.axis(title=None, values=[2, 5, 10, 20, 50], grid=False),
        color=colour.legend(title="α", symbolOpacity=1, symbolType="stroke"),
    )
    y = alt.Y("emd:Q").scale(domain=[0, 1.8]).axis(title="EMD", tickCount=6)
    layers = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=28)).encode(y=y),
    ).properties(width=300, height=240)
    title = alt.TitleParams(
        "The EMD of a Dirichlet split settles at about 20 classes and 15 clients",
        subtitle=f"mean of {SEEDS} seeds, band: one standard deviation · thesis, figure 3.1",
    )
    facet = alt.Facet("varied:N").header(title=None, labelAnchor="start")
    return save_chart(layers.facet(facet, spacing=40).properties(title=title), picture, "EMD of Dirichlet")


def draw_figure32(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    told = "box: half of the clients; line: 1st to 99th percentile; 1 = an equal share · thesis, figure 3.2"
    title = "A smaller α also makes clients unequal in size"
    return _drawn_boxes(rows, picture, title, told, "samples of a client / equal share")


def draw_figure33(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    told = "box: half of the clients; line: 1st to 99th percentile; ten classes · thesis, figure 3.3"
    title = "Under a Dirichlet split clients differ in how skewed they are"
    return _drawn_boxes(rows, picture, title, told, "EMD of a client")


def _drawn_boxes(rows: Sequence[Row], picture: Path, title: str, told: str, axis: str) -> Path:
    import altair as alt

    base = alt.Chart(alt.InlineData(values=list(rows))).encode(
        x=alt.X("alpha:N").sort(None).axis(title="α", labelAngle=0, ticks=False),
        xOffset=alt.XOffset("clients:O"),
        color=alt.Color("clients:O").scale(range=list(PALETTE[:4])).legend(title="clients"),
    )
    chart = alt.layer(
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q").axis(title=axis), y2="high:Q"),
        base.mark_bar(size=16, opacity=1).encode(y="first:Q", y2="third:Q"),
        base.mark_tick(color="white", thickness=2, size=16).encode(y="median:Q", color=alt.value("white")),
    ).properties(width=640, height=280, title=alt.TitleParams(title, subtitle=told))
    return save_chart(chart, picture, title)


def _seeds(wanted: Wanted, count: int = SEEDS) -> Sequence[int]:
    return (0,) if wanted.quick else wanted.seeds or range(count)


def _balanced(classes: int, each: int) -> Array:
    return np.repeat(np.arange(classes), each)


def _dirichlet(alpha: float, classes: int, clients: int, seed: int) -> Array:
    labels = _balanced(classes, 5000)
    return partition(labels, f"dirichlet({alpha})", clients, seed, min_samples=0).counts


def _mean(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values):.2f}"

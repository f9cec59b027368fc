"""Remakes the figures and tables of docs/skew.md from unskew itself: ``python docs/figures.py``.

Figures go to docs/img; tables are written into the page between their markers. Takes about half a minute; the
tables of SEM use the label counts of MNIST and CIFAR (all balanced but MNIST's), so no data set is needed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from unskew.data import load
from unskew.data.partition import partition
from unskew.metrics import skew, system_emd
from unskew.report.charts import partition_picture
from unskew.report.diagnosis import diagnose
from unskew.report.drawing import save_chart
from unskew.report.theme import PALETTE

HERE = Path(__file__).parent
PAGE = HERE / "skew.md"
ALPHAS = (0.1, 0.5, 1.0, 5.0, 10.0, 100.0)
SEEDS = 20


def balanced(classes: int, each: int) -> np.ndarray:
    return np.repeat(np.arange(classes), each)


def dirichlet_counts(alpha: float, classes: int, clients: int, seed: int, each: int = 5000) -> np.ndarray:
    return partition(balanced(classes, each), f"dirichlet({alpha})", clients, seed, min_samples=0).counts


def figure_3_1() -> None:
    """EMD of the Dirichlet split for alpha, M and K: the mean over seeds."""
    rows: list[dict[str, Any]] = []
    for alpha in (0.1, 0.5, 1.0, 5.0):
        for varied, values in (("classes M (K = 20)", (2, 3, 5, 7, 10, 15, 20, 30, 50)),
                               ("clients K (M = 20)", (2, 3, 5, 7, 10, 15, 20, 30, 50))):  # fmt: skip
            for value in values:
                classes, clients = (value, 20) if varied.startswith("classes") else (20, value)
                emds = [system_emd(dirichlet_counts(alpha, classes, clients, s)) for s in range(SEEDS)]
                rows.append({"varied": varied, "value": value, "alpha": f"{alpha:g}",
                             "emd": float(np.mean(emds)), "low": float(np.mean(emds) - np.std(emds)),
                             "high": float(np.mean(emds) + np.std(emds))})  # fmt: skip
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("value:Q").scale(type="log", domain=[2, 50], nice=False)
        .axis(title=None, values=[2, 5, 10, 20, 50], grid=False),
        color=alt.Color("alpha:N").scale(range=list(PALETTE[:4]))
        .legend(title="α", symbolOpacity=1, symbolType="stroke"),
    )  # fmt: skip
    layers = alt.layer(
        base.mark_area(opacity=0.15).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_line(point=alt.OverlayMarkDef(size=28)).encode(
            y=alt.Y("emd:Q").scale(domain=[0, 1.8]).axis(title="EMD", tickCount=6)
        ),
    ).properties(width=300, height=240)
    chart = layers.facet(
        alt.Facet("varied:N").header(title=None, labelAnchor="start"), spacing=40
    ).properties(
        title=alt.TitleParams(
            "The EMD of a Dirichlet split settles at about 20 classes and 15 clients",
            subtitle=f"mean of {SEEDS} seeds, band: one standard deviation · thesis, figure 3.1",
        )
    )
    save_chart(chart, HERE / "img" / "emd-of-dirichlet.png", "EMD of Dirichlet")


def boxes(quantity: str, title: str, subtitle: str, name: str, axis: str) -> None:
    """Boxplots over clients for every alpha and number of clients (figures 3.2 and 3.3)."""
    rows: list[dict[str, Any]] = []
    for alpha in ALPHAS:
        for clients in (10, 20, 50, 100):
            values: list[float] = []
            for seed in range(max(2, 400 // clients)):
                measured = skew(dirichlet_counts(alpha, 10, clients, seed))
                own = (
                    measured.sizes / measured.sizes.mean() if quantity == "size" else measured.emd_per_client
                )
                values += own[~np.isnan(own)].tolist()
            low, first, median, third, high = np.percentile(values, [1, 25, 50, 75, 99]).tolist()
            rows.append({"alpha": f"{alpha:g}", "clients": clients, "low": low, "first": first, "median": median,
                         "third": third, "high": high})  # fmt: skip
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("alpha:N").sort(None).axis(title="α", labelAngle=0, ticks=False),
        xOffset=alt.XOffset("clients:O"),
        color=alt.Color("clients:O").scale(range=list(PALETTE[:4])).legend(title="clients"),
    )
    chart = alt.layer(
        base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q").axis(title=axis), y2="high:Q"),
        base.mark_bar(size=16, opacity=1).encode(y="first:Q", y2="third:Q"),
        base.mark_tick(color="white", thickness=2, size=16).encode(y="median:Q", color=alt.value("white")),
    ).properties(width=640, height=280, title=alt.TitleParams(title, subtitle=subtitle))
    save_chart(chart, HERE / "img" / name, title)


def examples() -> None:
    """The same EMD in three shapes, and the picture that diagnose draws."""
    digits = load("digits")
    part = partition(digits, "dirichlet(0.1)", 50, 0, fraction=0.5)
    found = diagnose(part.counts, dataset="digits", labels=digits.labels)
    about = "digits · dirichlet(0.1) · 50 clients · half of the data"
    chart = partition_picture(found.counts, found.skew, found.labels, about)
    save_chart(chart, HERE / "img" / "digits.png", found.headline)


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


def table_3_1() -> str:
    """The EMD column of the thesis's table 3.1, recomputed on balanced labels."""
    lines = ["| paper | sampler | EMD, printed | EMD, ours |", "|---|---|--:|--:|"]
    for paper, sampler, expression, classes, clients, printed in RELATED:
        labels = balanced(classes, 5000 if classes == 10 else 1000)
        emds = [system_emd(partition(labels, expression, clients, s).counts) for s in range(SEEDS)]
        spread = f" ± {np.std(emds):.2f}" if np.std(emds) > 0.005 else ""
        lines.append(f"| {paper} | {sampler} | {printed} | {np.mean(emds):.2f}{spread} |")
    return "\n".join(lines)


MNIST = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
CIFAR10, CIFAR100 = np.full(10, 5000), np.full(100, 500)
SEM_TABLES = (  # table, data, label counts, clients, alpha, U, sparsity and scarcity as printed
    *(("I", "MNIST", MNIST, 100, a, 0.2, sp, None) for a, sp in ((0.1, 0.63), (0.3, 0.33), (0.5, 0.20))),
    *(("I", "CIFAR-10", CIFAR10, 100, a, 0.2, sp, None) for a, sp in ((0.1, 0.61), (0.3, 0.38), (0.5, 0.22))),
    *(("I", "CIFAR-100", CIFAR100, 100, a, 0.2, sp, None) for a, sp in ((0.1, 0.78), (0.3, 0.64), (0.5, 0.58))),
    *(("II", "CIFAR-10", CIFAR10, 100, 0.1, u, sp, sc) for u, sp, sc in (
        (0.05, 0.72, 0.85), (0.10, 0.67, 0.58), (0.15, 0.63, 0.45), (0.20, 0.61, 0.30), (1.0, 0.54, 0.08))),
    *(("III", "CIFAR-10", CIFAR10, n, 0.5, 0.8, sp, sc) for n, sp, sc in (
        (500, 0.23, 0.21), (1000, 0.34, 0.74), (1500, 0.40, 0.94), (2000, 0.45, 0.99))),
)  # fmt: skip


def sem_tables() -> str:
    """SEM's sparsity and scarcity, recomputed: the mean over seeds, and how much one draw varies."""
    lines = [
        "| table | data | clients | α | U | sparsity, printed | ours "
        "| scarcity, printed | ours, n < 50 | ours, n ≤ 50 |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for table, name, counts, clients, alpha, used, printed, scarce in SEM_TABLES:
        labels = np.repeat(np.arange(len(counts)), counts)
        found = []
        for seed in range(2 * SEEDS):
            split = partition(labels, f"dirichlet({alpha})", clients, seed, fraction=used)
            found.append(skew(split.counts))

        def mean(values: list[float]) -> str:
            return f"{np.mean(values):.2f} ± {np.std(values):.2f}"

        both = ("–", "–", "–")
        if scarce is not None:
            both = (
                f"{scarce:.2f}",
                mean([f.scarcity["below"] for f in found]),
                mean([f.scarcity["at_most"] for f in found]),
            )
        cells = (table, name, f"{clients:,}", f"{alpha:g}", f"{used:.0%}", f"{printed:.2f}",
                 mean([f.sparsity for f in found]), *both)  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_table(name: str, table: str) -> None:
    """Put a table into the page between ``<!-- name -->`` and ``<!-- /name -->``."""
    text = PAGE.read_text(encoding="utf-8")
    marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    assert marked.search(text), f"docs/skew.md lacks the markers of {name}"
    PAGE.write_text(marked.sub(lambda m: f"{m[1]}\n{table}\n\n{m[2]}", text), encoding="utf-8")


def main(wanted: list[str]) -> None:
    (HERE / "img").mkdir(exist_ok=True)
    work = {
        "example": examples,
        "3.1": figure_3_1,
        "3.2": lambda: boxes(
            "size",
            "A smaller α also makes clients unequal in size",
            "box: half of the clients; line: 1st to 99th percentile; 1 = an equal share · thesis, figure 3.2",
            "sizes-of-dirichlet.png",
            "samples of a client / equal share",
        ),
        "3.3": lambda: boxes(
            "emd",
            "Under a Dirichlet split clients differ in how skewed they are",
            "box: half of the clients; line: 1st to 99th percentile; ten classes · thesis, figure 3.3",
            "emds-of-dirichlet.png",
            "EMD of a client",
        ),
        "table-3.1": lambda: write_table("table-3.1", table_3_1()),
        "table-sem": lambda: write_table("table-sem", sem_tables()),
    }
    for name in wanted or work:
        print(name, flush=True)
        work[name]()


if __name__ == "__main__":
    main(sys.argv[1:])

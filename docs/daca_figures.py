"""Figures 4 and 5 of DACA, pictures of its clusters, its gap to the optimum: ``python docs/daca_figures.py``.

Pure computation on label counts: MNIST's class sizes dealt as in section IV-A, so no data set is needed. Pictures go to
docs/img, tables into docs/methods/daca.md between their markers. Takes about two minutes on one core.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

from unskew.data.partition import partition
from unskew.network import Wireless
from unskew.parts.prepare import Cec, Daca, Scc
from unskew.parts.prepare.clustered import Clustered, Clusters, after_sharing, system_emds
from unskew.report.clusters import Cluster, cluster_picture
from unskew.report.drawing import save_chart
from unskew.report.theme import BLUE, MUTED, ORANGE, PINK, RED

HERE = Path(__file__).parent
PAGE = HERE / "methods" / "daca.md"
MNIST = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
BITS = 784 * 8 + 4
SEEDS = 20
METHODS: dict[str, Callable[..., Clustered]] = {
    "DACA": Daca,
    "DACA, join=gain (ours)": lambda **given: Daca(join="gain", **given),
    "SCC": Scc,
    "CEC": Cec,
}
COLOURS = [BLUE, PINK, ORANGE, RED]
SNRS = (-30, 10, 30)
DELAYS = (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
TRUSTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)

Draw = tuple[np.ndarray, np.ndarray, dict[int, np.ndarray]]  # counts, closeness, rates by SNR


def draws() -> list[Draw]:
    """The 100 users of section IV-A, seed by seed."""
    labels = np.repeat(np.arange(10), MNIST)
    made = []
    for seed in range(SEEDS):
        counts = partition(labels, "daca", 100, seed).counts
        rates = {snr: Wireless(snr=snr).rates(100, seed) for snr in SNRS}
        made.append((counts, Wireless().trust(100, seed), rates))
    return made


def emds(part: Clustered, snr: int, users: Sequence[Draw]) -> tuple[list[float], list[float]]:
    """(normalised, printed) system EMD after sharing, a value a seed (eq. 5)."""
    found = [
        system_emds(after_sharing(c, part.clusters(c, trust, rates[snr], BITS)), c)
        for c, trust, rates in users
    ]
    return [a for a, _ in found], [b for _, b in found]


def swept(
    users: Sequence[Draw], name: str, values: Sequence[float], fixed: dict[str, float]
) -> list[dict[str, Any]]:
    rows = []
    for snr in SNRS:
        for label, make in METHODS.items():
            for value in values:
                normalised, printed = emds(make(**{name: value}, **fixed), snr, users)
                mean, spread = float(np.mean(normalised)), float(np.std(normalised))
                before = [system_emds(c, c)[0] for c, _, _ in users]
                rises = float(np.mean([b > n + 1e-9 for b, n in zip(printed, before, strict=True)]))
                rows.append({"snr": snr, "at": f"SNR {snr} dB", "method": label, "x": value, "emd": mean,
                             "low": mean - spread, "high": mean + spread, "printed": float(np.mean(printed)),
                             "rises": rises, "worst": max(a - b for a, b in zip(normalised, before, strict=True)),
                             "before": float(np.mean(before))})  # fmt: skip
    return rows


def drawn(rows: list[dict[str, Any]], file: str, axis: str, log: bool, title: str, subtitle: str) -> None:
    scale = {"type": "log", "domain": [0.5, 50], "nice": False} if log else {"domain": [0, 1], "nice": False}
    ticks = [0.5, 1, 2, 5, 10, 20, 50] if log else [0, 0.2, 0.4, 0.6, 0.8, 1]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("x:Q").scale(**scale).axis(title=axis, values=ticks, grid=False),
        color=alt.Color("method:N").scale(domain=list(METHODS), range=COLOURS)
        .legend(title=None, orient="top", symbolType="stroke", symbolOpacity=1, labelLimit=300),
        strokeDash=alt.StrokeDash("method:N").scale(domain=list(METHODS), range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]])
        .legend(None),
    )  # fmt: skip
    y = alt.Y("emd:Q").scale(domain=[0.8, 1.8], nice=False).axis(title="normalised system EMD", tickCount=6)
    layers = alt.layer(
        base.mark_area(opacity=0.13).encode(y=alt.Y("low:Q").scale(domain=[0.8, 1.8]), y2="high:Q"),
        base.mark_line(clip=True).encode(y=y),
        base.mark_rule().encode(y=alt.Y("before:Q"), x=alt.value(0), x2=alt.value(230),
                                                 color=alt.value(MUTED)),
    ).properties(width=230, height=230)  # fmt: skip
    order = [f"SNR {snr} dB" for snr in SNRS]
    chart = layers.facet(alt.Facet("at:N").header(title=None, labelAnchor="start").sort(order), spacing=28)
    told = [subtitle, "grey: without sharing · band: one standard deviation"]
    chart = chart.properties(title=alt.TitleParams(title, subtitle=told))
    save_chart(chart, HERE / "img" / file, title)


def table(rows: list[dict[str, Any]], values: Sequence[float], name: str) -> str:
    """Normalised and, in brackets, printed: what figures cannot be read off to."""
    lines = [
        f"| SNR | method | {' | '.join(f'{name} {v:g}' for v in values)} |",
        "|--:|---|" + "--:|" * len(values),
    ]
    for snr in SNRS:
        for label in METHODS:
            cells = []
            for value in values:
                row = next(r for r in rows if (r["snr"], r["method"], r["x"]) == (snr, label, value))
                cells.append(f"{row['emd']:.2f} ({row['printed']:.2f})")
            lines.append(f"| {snr} dB | {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def clusters_of(found: Clusters) -> list[Cluster]:
    made = [Cluster(m, found.members(m).tolist(), int(found.volume[m])) for m in found.heads.tolist()]
    busy = {c.head for c in made} | {k for c in made for k in c.members}
    rest = [k for k in range(len(found.head)) if k not in busy]
    return made + ([Cluster(None, rest)] if rest else [])


def pictures(users: Sequence[Draw]) -> None:
    """The clusters of seed 0 at the setting of figure 3, as the paper joins members and by gain."""
    counts, trust, rates = users[0]
    for join, file in (("unlike", "daca-clusters.png"), ("gain", "daca-clusters-gain.png")):
        found = Daca(join=join).clusters(counts, trust, rates[10], BITS)
        before, after = (system_emds(c, counts)[0] for c in (counts, after_sharing(counts, found)))
        members = sum(len(found.members(m)) for m in found.heads.tolist())
        title = f"daca(join={join}): {len(found.heads)} heads share with {members} users"
        told = f"system EMD {before:.2f} → {after:.2f} · {found.seconds:.2f} s · SNR 10 dB, T_th = 1 s, e_th = 0.5"
        chart = cluster_picture(clusters_of(found), counts, [str(c) for c in range(10)], title, told)
        save_chart(chart, HERE / "img" / file, title)


def sharing_seconds(users: Sequence[Draw]) -> str:
    """How long sharing takes before round 0, at 10 dB: the median of the seeds, and the fastest and the slowest."""
    lines = [
        "| | clients that take part | 60 samples | 300 | 600 |",
        "|---|--:|--:|--:|--:|",
    ]
    slow = 1e5  # bits a second
    volumes = (60, 300, 600)
    found = [
        [Daca(T_th=60, v_th=slow, volume=n).clusters(c, trust, rates[10], BITS) for n in volumes]
        for c, trust, rates in users
    ]
    took = [[clusters.seconds for clusters in row] for row in found]
    taking = [int((row[-1].head >= 0).sum()) for row in found]
    lines.append(_row("`daca(T_th=60, v_th=100000)`", taking, took))
    for name, least in (("`central_sharing`", 0.0), ("`central_sharing(v_th=100000)`", slow)):
        served = [Wireless().server_rates(100, seed) for seed in range(len(users))]
        served = [rates[rates >= least] for rates in served]
        # everybody holds 600: an even upload each, then all of it to all
        took = [
            [BITS * -(-n // len(rates)) / rates.min() + BITS * n / rates.min() for n in volumes]
            for rates in served
        ]
        lines.append(_row(name, [len(rates) for rates in served], took))
    return "\n".join(lines)


def _row(name: str, taking: list[int], took: list[list[float]]) -> str:
    seconds = np.array(took)
    cells = [f"{np.median(column):.0f} ({column.min():.0f} to {column.max():,.0f})" for column in seconds.T]
    return f"| {name} | {np.median(taking):.0f} ({min(taking)} to {max(taking)}) | {' | '.join(cells)} |"


def gap() -> str:
    """How much of the best possible reduction each heuristic reaches on instances that can be solved exactly."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from exact_sharing import best_emd, small

    lines = ["| users | before | optimum | DACA | join=gain | SCC | CEC |", "|--:|--:|--:|--:|--:|--:|--:|"]
    for clients in (6, 8, 10, 12):
        found = []
        for seed in range(SEEDS):
            counts, trust, rates, linked, in_time = small(seed, clients)
            row = [system_emds(counts, counts)[0], best_emd(counts, linked, in_time)]
            for make in METHODS.values():
                sharing = make(T_th=0.15).clusters(counts, trust, rates, BITS)
                row.append(system_emds(after_sharing(counts, sharing), counts)[0])
            found.append(row)
        mean = np.mean(found, 0)
        reached = [(mean[0] - value) / (mean[0] - mean[1]) for value in mean[2:]]
        cells = [f"{value:.3f} ({share:.0%})" for value, share in zip(mean[2:], reached, strict=True)]
        lines.append(f"| {clients} | {mean[0]:.3f} | {mean[1]:.3f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def put(name: str, text: str) -> None:
    """Between the page's markers of this name."""
    page = PAGE.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end {name} -->)", re.S)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE} has no marker <!-- {name} -->")
    PAGE.write_text(pattern.sub(lambda match: match[1] + text + "\n" + match[2], page))


def main() -> None:
    users = draws()
    pictures(users)
    over_time = swept(users, "T_th", DELAYS, {"e_th": 0.5})
    drawn(over_time, "daca-figure-4.png", "delay threshold T_th, seconds", True,
          "With more time the system EMD falls, for DACA further than for SCC and CEC",
          f"mean of {SEEDS} seeds, e_th = 0.5 · DACA, figure 4")  # fmt: skip
    over_trust = swept(users, "e_th", TRUSTS, {"T_th": 2.0})
    drawn(over_trust, "daca-figure-5.png", "closeness threshold e_th", False,
          "Where much trust is demanded little is shared",
          f"mean of {SEEDS} seeds, T_th = 2 s · DACA, figure 5")  # fmt: skip
    put("figure 4", table(over_time, (1, 5, 20, 50), "T_th"))
    put("figure 5", table(over_trust, (0.0, 0.5, 0.8, 0.95), "e_th"))
    put("gap", gap())
    put("seconds", sharing_seconds(users))
    for row in over_time:
        if row["method"] == "DACA" and row["snr"] == 10 and row["x"] in (5, 20):
            print(f"eq. 5 as printed rises in {row['rises']:.0%} of draws at T_th = {row['x']} s, 10 dB")
    worst = max(r["worst"] for r in over_time + over_trust if r["method"].startswith("DACA"))
    print(f"DACA, normalised: the largest change of any draw is {worst:+.4f}")


if __name__ == "__main__":
    main()

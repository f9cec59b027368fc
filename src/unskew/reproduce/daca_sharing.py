"""DACA's figures 4 and 5, its clusters, and what sharing takes: computed of label counts, no data set is needed.

MNIST's class sizes are dealt as in section IV-A, seed by seed; nothing is trained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.data.partition import partition
from unskew.network import Wireless
from unskew.parts.prepare import Cec, Daca, Scc
from unskew.parts.prepare.clustered import Clustered, after_sharing, system_emds
from unskew.report.drawing import save_chart
from unskew.report.theme import BLUE, MUTED, ORANGE, PINK, RED
from unskew.reproduce.making import Row, Wanted

MNIST = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])
BITS = 784 * 8 + 4
SEEDS = 20
METHODS: dict[str, Callable[..., Clustered]] = {
    "DACA": Daca,
    "DACA, join=gain (ours)": lambda **given: Daca(join="gain", **given),
    "SCC": Scc,
    "CEC": Cec,
}
SNRS = (-30, 10, 30)
SLOW = 1e5  # bits a second: the slowest link that counts in figure 6

Draw = tuple[Array, Array, dict[int, Array]]  # counts, closeness, rates by SNR


@cache
def users(seed: int) -> Draw:
    """The 100 users of section IV-A."""
    counts = partition(np.repeat(np.arange(10), MNIST), "daca", 100, seed).counts
    rates = {snr: Wireless(snr=snr).rates(100, seed) for snr in SNRS}
    return counts, Wireless().trust(100, seed), rates


def seeds_of(wanted: Wanted) -> tuple[int, ...]:
    """Twenty, or those that were asked for."""
    return (0,) if wanted.quick else wanted.seeds or tuple(range(SEEDS))


def figure4(wanted: Wanted) -> list[Row]:
    """The system EMD against the delay threshold."""
    values = (1, 50) if wanted.quick else (0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
    return _swept(seeds_of(wanted), "T_th", values, e_th=0.5)


def figure5(wanted: Wanted) -> list[Row]:
    """The system EMD against the closeness threshold."""
    values = (
        (0.0, 1.0) if wanted.quick else (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)
    )
    return _swept(seeds_of(wanted), "e_th", values, T_th=2.0)


def _swept(seeds: Sequence[int], name: str, values: Sequence[float], **fixed: float) -> list[Row]:
    rows: list[Row] = []
    before = [system_emds(users(seed)[0], users(seed)[0])[0] for seed in seeds]
    for snr in SNRS:
        for label, make in METHODS.items():
            for value in values:
                found = [_emds(make(**{name: value}, **fixed), snr, seed) for seed in seeds]
                emd = [normalised for normalised, _ in found]
                row = {
                    "SNR": f"{snr} dB",
                    "method": label,
                    name: value,
                    "emd": float(np.mean(emd)),
                    "sd": float(np.std(emd)),
                    "printed": float(np.mean([printed for _, printed in found])),
                    "rises": float(np.mean([p > n + 1e-9 for (_, p), n in zip(found, before, strict=True)])),
                    "worst": max(after - n for after, n in zip(emd, before, strict=True)),
                    "before": float(np.mean(before)),
                }
                rows.append({k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()})
    return rows


def _emds(part: Clustered, snr: int, seed: int) -> tuple[float, float]:
    """(normalised, printed) system EMD after sharing (eq. 5)."""
    counts, trust, rates = users(seed)
    return system_emds(after_sharing(counts, part.clusters(counts, trust, rates[snr], BITS)), counts)


def draw_figure4(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    title = "With more time the system EMD falls, for DACA further than for SCC and CEC"
    return _drawn(
        rows, picture, "T_th", "delay threshold T_th, seconds", title, "e_th = 0.5 · DACA, figure 4"
    )


def draw_figure5(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    title = "Where much trust is demanded little is shared"
    return _drawn(rows, picture, "e_th", "closeness threshold e_th", title, "T_th = 2 s · DACA, figure 5")


def _drawn(rows: Sequence[Row], picture: Path, name: str, axis: str, title: str, subtitle: str) -> Path:
    import altair as alt

    values = [
        {
            **row,
            "at": f"SNR {row['SNR']}",
            "x": row[name],
            "low": row["emd"] - row["sd"],
            "high": row["emd"] + row["sd"],
        }
        for row in rows
    ]
    log = name == "T_th"
    scale: Any = (
        {"type": "log", "domain": [0.5, 50], "nice": False} if log else {"domain": [0, 1], "nice": False}
    )
    ticks = [0.5, 1, 2, 5, 10, 20, 50] if log else [0, 0.2, 0.4, 0.6, 0.8, 1]
    names = list(METHODS)
    legend: Any = {
        "title": None,
        "orient": "top",
        "symbolType": "stroke",
        "symbolOpacity": 1,
        "labelLimit": 300,
    }
    dashes = alt.StrokeDash("method:N").scale(domain=names, range=[[1, 0], [6, 3], [2, 2], [8, 2, 2, 2]])
    base = alt.Chart(alt.InlineData(values=values)).encode(
        x=alt.X("x:Q").scale(**scale).axis(title=axis, values=ticks, grid=False),
        color=alt.Color("method:N").scale(domain=names, range=[BLUE, PINK, ORANGE, RED]).legend(**legend),
        strokeDash=dashes.legend(None),
    )
    y = alt.Y("emd:Q").scale(domain=[0.8, 1.8], nice=False).axis(title="normalised system EMD", tickCount=6)
    rule = base.mark_rule().encode(
        y=alt.Y("before:Q"), x=alt.value(0), x2=alt.value(230), color=alt.value(MUTED)
    )
    area = base.mark_area(opacity=0.13)
    layers = alt.layer(
        area.encode(y=alt.Y("low:Q").scale(domain=[0.8, 1.8]), y2="high:Q"),
        base.mark_line(clip=True).encode(y=y),
        rule,
    ).properties(width=230, height=230)
    order = [f"SNR {snr} dB" for snr in SNRS]
    facet = alt.Facet("at:N").header(title=None, labelAnchor="start").sort(order)
    told = [f"mean of {SEEDS} seeds, {subtitle}", "grey: without sharing · band: one standard deviation"]
    chart = layers.facet(facet, spacing=28).properties(title=alt.TitleParams(title, subtitle=told))
    return save_chart(chart, picture, title)


def seconds(wanted: Wanted) -> list[Row]:
    """How long sharing takes before round 0, at 10 dB: the median of the seeds, and the fastest and the slowest."""
    volumes, seeds = (60, 300, 600), seeds_of(wanted)
    taking, took = [], []
    for counts, trust, rates in map(users, seeds):
        found = [Daca(T_th=60, v_th=SLOW, volume=n).clusters(counts, trust, rates[10], BITS) for n in volumes]
        taking.append(int((found[-1].head >= 0).sum()))
        took.append([clusters.seconds for clusters in found])
    rows = [_timed("`daca(T_th=60, v_th=100000)`", taking, took, volumes)]
    for name, least in (("`central_sharing`", 0.0), ("`central_sharing(v_th=100000)`", SLOW)):
        served = [rates[rates >= least] for rates in (Wireless().server_rates(100, seed) for seed in seeds)]
        # everybody holds 600: an even upload each, then all of it to all
        took = [
            [BITS * -(-n // len(rates)) / rates.min() + BITS * n / rates.min() for n in volumes]
            for rates in served
        ]
        rows.append(_timed(name, [len(rates) for rates in served], took, volumes))
    return rows


def _timed(name: str, taking: list[int], took: list[list[float]], volumes: Sequence[int]) -> Row:
    def said(values: Any) -> str:
        return f"{np.median(values):.0f} ({min(values):.0f} to {max(values):,.0f})"

    columns = {f"{n} samples, s": said(column) for n, column in zip(volumes, np.array(took).T, strict=True)}
    return {"sharing": name, "clients that take part": said(taking), **columns}

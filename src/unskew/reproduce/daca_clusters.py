"""DACA's clusters of one draw, as a picture and in numbers, and how far they are from the best that there is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from unskew.parts.prepare import Daca
from unskew.parts.prepare.clustered import Clusters, after_sharing, system_emds
from unskew.report.clusters import Cluster, cluster_picture
from unskew.report.drawing import save_chart
from unskew.reproduce.daca_sharing import BITS, METHODS, seeds_of, users
from unskew.reproduce.exact_sharing import best_emd, small
from unskew.reproduce.making import Row, Wanted

JOINS: tuple[Literal["unlike", "gain"], ...] = ("unlike", "gain")


def clusters(wanted: Wanted) -> list[Row]:
    """The clusters of seed 0 at the setting of figure 3 and 10 dB, as the paper joins members and by gain."""
    rows: list[Row] = []
    for join in JOINS:
        found, counts = _found(join)
        before, after = (system_emds(c, counts)[0] for c in (counts, after_sharing(counts, found)))
        rows.append(
            {
                "join": join,
                "heads": len(found.heads),
                "members": sum(len(found.members(m)) for m in found.heads.tolist()),
                "EMD before": round(before, 3),
                "after": round(after, 3),
                "seconds": round(found.seconds, 2),
            }
        )
    return rows


def draw_clusters(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    """Two pictures: the paper's way of joining, and beside it ours, whose name ends in -gain."""
    for row, join in zip(rows, JOINS, strict=True):
        found, counts = _found(join)
        title = f"daca(join={join}): {row['heads']} heads share with {row['members']} users"
        told = f"system EMD {row['EMD before']:.2f} → {row['after']:.2f} · {row['seconds']:.2f} s"
        told += " · SNR 10 dB, T_th = 1 s, e_th = 0.5"
        chart = cluster_picture(_clusters_of(found), counts, [str(c) for c in range(10)], title, told)
        file = picture if join == "unlike" else picture.with_stem(f"{picture.stem}-gain")
        save_chart(chart, file, title)
    return picture


def _found(join: Literal["unlike", "gain"]) -> tuple[Clusters, Any]:
    counts, trust, rates = users(0)
    return Daca(join=join).clusters(counts, trust, rates[10], BITS), counts


def _clusters_of(found: Clusters) -> list[Cluster]:
    made = [Cluster(m, found.members(m).tolist(), int(found.volume[m])) for m in found.heads.tolist()]
    busy = {c.head for c in made} | {k for c in made for k in c.members}
    rest = [k for k in range(len(found.head)) if k not in busy]
    return made + ([Cluster(None, rest)] if rest else [])


def gap(wanted: Wanted) -> list[Row]:
    """How much of the best possible reduction each heuristic reaches on instances that can be solved exactly."""
    rows: list[Row] = []
    for clients in (6,) if wanted.quick else (6, 8, 10, 12):
        found = []
        for seed in seeds_of(wanted):
            counts, trust, rates, linked, in_time = small(seed, clients)
            row = [system_emds(counts, counts)[0], best_emd(counts, linked, in_time)]
            for make in METHODS.values():
                sharing = make(T_th=0.15).clusters(counts, trust, rates, BITS)
                row.append(system_emds(after_sharing(counts, sharing), counts)[0])
            found.append(row)
        before, best, *ours = np.mean(found, 0).tolist()
        told: dict[str, Any] = {"users": clients, "before": f"{before:.3f}", "optimum": f"{best:.3f}"}
        for name, value in zip(METHODS, ours, strict=True):
            told[name] = f"{value:.3f} ({(before - value) / max(before - best, 1e-9):.0%})"
        rows.append(told)
    return rows

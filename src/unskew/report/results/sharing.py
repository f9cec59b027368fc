"""The report's part about raw samples that moved: who shared with whom, and what that did to the skew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from unskew.arrays import Array
from unskew.report.clusters import Cluster, cluster_picture
from unskew.report.page import Block, Figure, Paragraph, TableBlock
from unskew.report.results.gather import Record
from unskew.report.results.leaderboard import Row
from unskew.report.theme import themed
from unskew.runs.client_names import with_numbers

MOST_PICTURES = 4
MOST_CLIENTS = 600  # a picture of more is a cloud


def sharing_section(rows: Sequence[Row], labels: Sequence[str] | None) -> Iterator[Block]:
    """A table of what was shared, and a picture of each clustering; nothing where nothing was shared."""
    told = [(row.group.label, row.group.counted[0]) for row in rows if row.group.counted]
    shared = [(label, record, record.lines[0]) for label, record in told if record.lines[0].get("shared")]
    table = []
    for label, record, line in shared:
        for part in dict.fromkeys(entry["part"] for entry in line["shared"]):
            report = line.get(part) or {}
            moved = sum(
                (line.get("bytes") or {}).get(way, {}).get("samples", 0) for way in ("up", "down", "peer")
            )
            seconds = report.get("delay_s", report.get("collect_s", 0) + report.get("distribute_s", 0))
            table.append(
                [
                    label,
                    str(record.spec.seed),
                    f"{report.get('shared_samples', 0):,}",
                    f"{moved / 1e6:,.1f}",
                    f"{seconds:,.2f}",
                    _emd(report, "emd_before"),
                    _emd(report, "emd_after"),
                    _emd(report, "emd_after_printed"),
                    str(len(report.get("isolated", []))) if "isolated" in report else "",
                ]
            )
    if not table:
        return
    head = [
        "method",
        "seed",
        "samples received",
        "MB",
        "seconds",
        "EMD before",
        "after",
        "after, DACA eq. 5",
        "isolated",
    ]
    yield TableBlock(head, table, frozenset(head[1:]))
    yield Paragraph(
        "Samples received count a sample once a receiver. The system EMD after sharing is weighted by what clients "
        "hold then; DACA's eq. 5 as printed divides by the samples there were before, and can rise.",
        quiet=True,
    )
    drawn = 0
    for label, record, line in shared:
        part = record.partition
        if drawn < MOST_PICTURES and part is not None and part.clients <= MOST_CLIENTS:
            names = labels if labels is not None and len(labels) == part.counts.shape[1] else None
            found = picture(record, line, part.counts, names)
            if found is not None:
                drawn += 1
                yield Figure(themed(found), alt=f"Who shared with whom: {label}")


def picture(
    record: Record, line: dict[str, Any], counts: Array, names: Sequence[str] | None = None
) -> Any | None:
    """The clusters of a run's first line; None where clients shared with nobody directly."""
    called = record.data.get("names")
    line = with_numbers(line, called)
    direct = [e for e in line["shared"] if isinstance(e["from"], int) and "server" not in e["to"]]
    if not direct:
        return None
    part = direct[0]["part"]
    clusters = [Cluster(e["from"], e["to"], e["samples"]) for e in direct if e["part"] == part]
    busy = {c.head for c in clusters} | {m for c in clusters for m in c.members}
    if rest := [k for k in range(len(counts)) if k not in busy]:
        clusters.append(Cluster(None, rest))
    labels = names or [str(c) for c in range(counts.shape[1])]
    report = line.get(part) or {}
    told = f"system EMD {_emd(report, 'emd_before')} → {_emd(report, 'emd_after')}"
    return cluster_picture(
        clusters,
        counts,
        labels,
        f"{record.called}: {report.get('clusters')} heads share with {report.get('members')} clients",
        f"{told} · {report.get('delay_s', 0):.3g} s on the air · below a cluster: samples sent to each of its members",
        names=called,
    )


def _emd(report: dict[str, Any], name: str) -> str:
    return f"{report[name]:.3f}" if name in report else ""

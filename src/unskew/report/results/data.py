"""The report's part about the data: who holds what, and how skewed that is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unskew.metrics import Skew, skew
from unskew.report.charts import partition_picture
from unskew.report.page import Block, Figure, Paragraph, TableBlock
from unskew.report.results.gather import Record
from unskew.report.results.groups import Problem
from unskew.report.results.statistics import estimate
from unskew.report.theme import themed

MEASURES = {
    "emd": ("EMD", "0 to 2", "mean L1 distance of a client's label distribution to that of all"),
    "kld": ("KLD, nats", "from 0", "mean Kullback-Leibler divergence of the same two"),
    "jsd": ("JSD, nats", "0 to 0.69", "mean Jensen-Shannon divergence of the same two"),
    "sparsity": ("sparsity", "0 to 1", "share of classes that a client lacks"),
    "scarcity": ("scarcity", "0 to 1", "share of clients with at most 50 samples"),
    "gini": ("Gini of sizes", "0 to 1", "how unequal the clients' numbers of samples are"),
    "clients": ("clients", "", ""),
    "samples": ("samples", "", "of all clients together"),
}


def data_section(problem: Problem) -> Iterator[Block]:
    """The picture of the first seed's partition, and the skew over all seeds."""
    record = problem.first_record()
    part = record.partition
    measured: dict[int, dict[str, Any]] = {}
    for run in (run for group in problem.groups for run in group.runs):
        if run.spec.seed not in measured and (found := _skew_of(run)):
            measured[run.spec.seed] = found
    if part is not None:
        counted: Skew = skew(part.counts)
        known = class_names(problem) or []
        classes = part.counts.shape[1]
        names = known if len(known) == classes else [str(at) for at in range(classes)]
        about = problem.name + (f" · seed {record.spec.seed}" if len(measured) > 1 else "")
        picture = partition_picture(part.counts, counted, names, about, names=part.names)
        yield Figure(
            themed(picture),
            alt=f"Who holds what: {problem.name}, EMD {counted.emd:.2f}, sparsity {counted.sparsity:.2f}",
        )
    elif record.no_partition:
        yield Paragraph(f"Who held what cannot be drawn: {record.no_partition}.")
    if not measured:
        yield Paragraph("How skewed the data is was not kept with these runs.")
        return
    table = []
    for name, (title, span, meaning) in MEASURES.items():
        values = [float(found[name]) for found in measured.values() if found.get(name) is not None]
        if values:
            whole_number = name in ("clients", "samples")
            shown = [f"{v:,.0f}" if whole_number else f"{v:.3f}" for v in (min(values), max(values))]
            mean = estimate(values).mean
            value = f"{mean:,.0f}" if whole_number else f"{mean:.3f}"
            between = "" if shown[0] == shown[1] else f"{shown[0]} to {shown[1]}"
            table.append([title, value, between, span, meaning])
    if len(measured) > 1:
        seeds = f"over {len(measured)} seeds"
        yield TableBlock(["measure", "mean", seeds, "range", "meaning"], table, frozenset({"mean", seeds}))
    else:
        rows = [[title, value, span, meaning] for title, value, _, span, meaning in table]
        yield TableBlock(["measure", "value", "range", "meaning"], rows, frozenset({"value"}))


def _skew_of(record: Record) -> dict[str, Any]:
    found = record.result.get("skew")
    if not found and record.partition is not None:
        found = skew(record.partition.counts).as_dict(per_client=False)
    found = dict(found or {})
    if isinstance(found.get("scarcity"), dict):
        found["scarcity"] = found["scarcity"].get("at_most")
    return found


def class_names(problem: Problem) -> list[str] | None:
    """What the classes are called, where that was kept."""
    names = problem.first_record().data.get("labels")
    return [str(name) for name in names] if names and len(set(map(str, names))) == len(names) else None

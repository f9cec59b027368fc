"""Which data and which partition: in one line, and as a diagnosis reads it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.data.federation import Federation
from unskew.data.partition import build_family
from unskew.data.partition.result import Partition
from unskew.errors import InputError
from unskew.expression import render

if TYPE_CHECKING:
    from unskew.data import Dataset


def about(dataset: Dataset, part: Partition) -> str:
    """``digits · dirichlet(alpha=0.1) · seed 0 · 100 clients · 1,437 training samples``."""
    expression, seed = shortly(part.record["expression"]), part.record["seed"]
    return f"{dataset.name} · {expression} · seed {seed} · {totals(part)}"


def totals(part: Partition) -> str:
    """``100 clients · 1,437 training samples``."""
    clients = f"{part.clients:,} client{'' if part.clients == 1 else 's'}"
    return f"{clients} · {int(part.sizes.sum()):,} training samples"


def shortly(expression: str) -> str:
    """An expression without what is at its default, and with four digits."""
    made = render(build_family(expression))
    return re.sub(r"\d+\.\d{5,}", lambda number: f"{float(number[0]):.4g}", made)


def read_counts(given: Any) -> dict[str, Any]:
    """Label counts (client x class), and what is known of who holds them, by the names that ``diagnose`` has for it."""
    if isinstance(given, Federation):
        who = f"{given.clients:,} client{'' if given.clients == 1 else 's'}"
        return {
            "counts": given.counts,
            "dataset": given.dataset.name,
            "about": f"{given.dataset.name} · {who} · {int(given.sizes.sum()):,} training samples",
            "labels": given.dataset.labels,
            "names": given.names,
        }
    if isinstance(given, Partition):
        name = given.record.get("dataset") or "own labels"
        said = (
            f"{name} · {shortly(given.record['expression'])} · seed {given.record['seed']} · {totals(given)}"
        )
        return {
            "counts": given.counts,
            "dataset": name,
            "about": said,
            "record": given.record,
            "names": given.names,
        }
    try:
        counts = np.asarray(given)
    except ValueError:
        counts = np.zeros(0, object)
    if counts.ndim != 2 or counts.dtype.kind not in "iufb":
        raise InputError(
            "diagnose takes who holds what: a Federation, a partition such as unskew.partition(dataset, "
            f'"dirichlet(0.1)", clients=20), or a table of counts, client by class, not a {type(given).__name__}'
        )
    return {"counts": counts, "dataset": "own counts"}

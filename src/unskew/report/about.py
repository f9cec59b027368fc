"""One line that says which data and which partition."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from unskew.data.partition import build_family
from unskew.expression import render

if TYPE_CHECKING:
    from unskew.data import Dataset
    from unskew.data.partition import Partition


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

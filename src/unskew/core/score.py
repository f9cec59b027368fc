"""How one model does on the test set, and on clients' own data."""

from __future__ import annotations

from typing import Any

import numpy as np

from unskew.core.engine import RunPlan
from unskew.core.held import OWN
from unskew.core.types import Tree


def evaluate_model(run: RunPlan, model: Tree, clients: bool = False) -> dict[str, Any]:
    """A model on the global test set, by class too; and on clients' own data where asked."""
    sums = run.engine.evaluate(run.job, model)
    loss = float(sums.loss.sum() / sums.count.sum())
    found: dict[str, Any] = {
        "global_test_accuracy": float(sums.right.sum() / sums.count.sum()),
        "global_test_loss": loss if np.isfinite(loss) else None,
        "per_class_accuracy": [
            float(c / n) if n else None for c, n in zip(sums.right, sums.count, strict=True)
        ],
    }
    if clients:
        own = run.as_dealt  # a client's own: not what it was sent or made
        sums = run.engine.evaluate(run.job, model, np.flatnonzero(own.sizes), OWN)
        held = np.flatnonzero(own.sizes)[sums.count > 0]  # not everybody may have brought test data
        shares = sums.means()["accuracy"][sums.count > 0]
        found["mean_client_accuracy"] = float(shares.mean())
        found["worst_client_accuracy"] = float(shares.min())
        if own.names is not None:
            found["worst_client"] = own.name_of(int(held[shares.argmin()]))
    return found

"""How one model does on the test set, and on clients' own data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unskew.core.engine import RunPlan
from unskew.core.held import OWN
from unskew.core.task import Sums
from unskew.core.types import Tree
from unskew.metrics.scores import METRICS


def evaluate_model(run: RunPlan, model: Tree, clients: bool = False) -> dict[str, Any]:
    """A model on the global test set, by every metric; and on clients' own data where asked."""
    sums = run.engine.evaluate(run.job, model)
    found = name_scores(score_test(run, sums), run.job.net.task.notes(sums))
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


def metric_names(run: RunPlan) -> tuple[str, ...]:
    """The names of all metrics of the test set: the task's own that fit the data, then those given in Python."""
    return (*run.job.net.task.fitting(run.job.roster.dataset.classes), *run.metrics)


def score_test(run: RunPlan, sums: Sums) -> dict[str, float]:
    """Every metric of the server's test set by name: the task's own, then those given in Python; NaN for none."""
    found = {name: float(value) for name, (value,) in run.job.net.task.scores(sums).items()}
    return found | {name: metric.work_out(name, sums.answers or {}) for name, metric in run.metrics.items()}


def name_scores(found: dict[str, float], notes: dict[str, Any]) -> dict[str, Any]:
    """Scores as a line of the log has them: by their whole names, None where there is no number."""
    named = {
        (METRICS[name].key if name in METRICS else f"global_test_{name}"): (
            value if math.isfinite(value) else None
        )
        for name, value in found.items()
    }
    first = ("global_test_accuracy", "global_test_loss")  # as logs have always begun
    return {key: named[key] for key in first if key in named} | notes | named

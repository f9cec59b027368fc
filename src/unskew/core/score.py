"""How one model does on the test set, on what was set aside to choose by, and on clients' own data."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.core.engine import RunPlan
from unskew.core.held import OWN, OWN_TEST, VALIDATION, Moment
from unskew.core.measure import try_at_clients
from unskew.core.roster import Roster
from unskew.core.task import Sums
from unskew.core.types import Ids, Tree
from unskew.errors import InputError
from unskew.metrics.own import Metric
from unskew.notices import warn
from unskew.readings import BY_SAMPLE, METRICS, number_or_none, validation_key

ACCURACIES = "client accuracies"
"""What models that are tried on clients' own data are counted as."""


def evaluate_model(run: RunPlan, model: Tree, clients: bool = False) -> dict[str, Any]:
    """A model on the global test set, by every metric; and on clients' own data where asked."""
    sums = run.engine.evaluate(run.job, model)
    found = name_scores(score_test(run, sums), run.job.net.task.notes(sums))
    if "validation" in run.as_dealt.aside:
        found |= name_validation(score_validation(run, model))
    if clients:
        found |= describe_clients(run, *judge_clients(run, model))
    return found


def judge_clients(run: RunPlan, model: Tree) -> tuple[Ids, Array]:
    """(clients, the accuracy of each): on what they have for a test, or where nobody has, on what they train on.

    On their own: not on what they were sent or made. Who told nothing, at a site that is away, is left out.
    """
    sizes, moment = own_data(run.as_dealt)
    who = np.flatnonzero(sizes)
    found = try_at_clients(run, ACCURACIES, model, who, moment)
    told = found.count > 0
    return who[told], found.means()["accuracy"][told]


def own_data(dealt: Roster) -> tuple[Array, Moment]:
    """How many samples each client has that it is judged by on its own, and which these are."""
    tests = dealt.aside.get("test")
    return (dealt.sizes, OWN) if tests is None else (tests, OWN_TEST)


def describe_clients(run: RunPlan, who: Ids, shares: Array) -> dict[str, Any]:
    """Accuracies of clients as a line of the log has them: the mean over clients, the lowest, and the spread.

    Their names say on which samples they were found.
    """
    own = run.as_dealt
    kind = "train" if own.aside.get("test") is None else "test"
    if not len(who):
        return {}
    found: dict[str, Any] = {
        f"mean_client_{kind}_accuracy": float(shares.mean()),
        f"worst_client_{kind}_accuracy": float(shares.min()),
    }
    if own.names is not None or kind == "test":
        found["worst_client"] = own.name_of(int(who[shares.argmin()]))
    return found | {f"client_{kind}_accuracy": spread(shares)}


def spread(accuracies: Array) -> dict[str, Any]:
    """How accuracies are spread over clients."""
    low, quarter, median, three_quarters, high = np.percentile(accuracies, [0, 25, 50, 75, 100]).tolist()
    return {
        "clients": len(accuracies),
        "mean": float(accuracies.mean()),
        "sd": float(accuracies.std(ddof=1)) if len(accuracies) > 1 else 0.0,
        "min": low,
        "p25": quarter,
        "median": median,
        "p75": three_quarters,
        "max": high,
    }


def score_validation(run: RunPlan, model: Tree, client: int | None = None) -> dict[str, float]:
    """Every metric of what was set aside to choose by; NaN where there is none.

    It is the server's own, or of all clients together; of one client where its own model is judged.
    """
    held = run.as_dealt.aside["validation"]
    if held is None:
        return score_test(run, run.engine.evaluate(run.job, model, None, VALIDATION))
    who = np.flatnonzero(held) if client is None else np.array([client])
    sums = try_at_clients(run, "validation", model, who, VALIDATION, theirs=client is not None).together()
    return {name: float(value) for name, (value,) in run.job.net.task.scores(sums).items()}


def validation_names(run: RunPlan) -> tuple[str, ...]:
    """The names of all metrics of the validation samples: clients tell counts, and no answers one by one."""
    if "validation" not in run.as_dealt.aside:
        return ()
    if run.as_dealt.aside["validation"] is None:
        return metric_names(run)
    fitting = run.job.net.task.fitting(run.job.roster.dataset.classes)
    return tuple(name for name in fitting if name not in BY_SAMPLE)


def name_validation(found: dict[str, float]) -> dict[str, Any]:
    """Scores of the validation samples as a line of the log has them."""
    return {validation_key(key): value for key, value in name_scores(found, {}).items()}


def metric_names(run: RunPlan) -> tuple[str, ...]:
    """The names of all metrics of the test set: the task's own that fit the data, then those given in Python."""
    return (*run.job.net.task.fitting(run.job.roster.dataset.classes), *run.metrics)


def score_test(run: RunPlan, sums: Sums) -> dict[str, float]:
    """Every metric of the server's test set by name: the task's own, then those given in Python; NaN for none."""
    found = {name: float(value) for name, (value,) in run.job.net.task.scores(sums).items()}
    return found | {name: _score_own(name, metric, sums) for name, metric in run.metrics.items()}


def _score_own(name: str, metric: Metric, sums: Sums) -> float:
    """A metric given in Python; where it fails in the middle of a run it is left blank, and the run goes on."""
    try:
        return metric.work_out(name, sums.answers or {})
    except InputError as problem:
        warn(f"{problem}; it is left blank in this round", stacklevel=2)
        return math.nan


def name_scores(found: dict[str, float], notes: dict[str, Any]) -> dict[str, Any]:
    """Scores as a line of the log has them: by their whole names, None where there is no number."""
    named = {
        (METRICS[name].key if name in METRICS else f"global_test_{name}"): number_or_none(value)
        for name, value in found.items()
    }
    first = ("global_test_accuracy", "global_test_loss")  # as logs have always begun
    return {key: named[key] for key in first if key in named} | notes | named

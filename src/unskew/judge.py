"""How a model is judged: calibrated first where a method says so, then tried on the test set."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from unskew.costs import Costs
from unskew.engines.engine import Job
from unskew.holdings import OWN
from unskew.judge_each import judged_each
from unskew.network import air_of
from unskew.query import Questions
from unskew.state import State
from unskew.types import Tree


def judged(job: Job, state: State, line: dict[str, Any], clients: bool = False) -> dict[str, Any]:
    """A round's line with how the model that stands after it does, and what calibrating it cost.

    Where a method calibrates, the accuracy is that of the calibrated copy, and the model's own stands beside it.
    Where clients keep their models, each is judged, and the state remembers what was found.
    """
    if not job.method.schedule.exchanges:
        return judged_each(job, state, clients) | line
    params = state.params
    model, costs = calibrated(job, params, state.round)
    found = evaluation(job, model, clients)
    if model is not params:
        found["uncalibrated_test_accuracy"] = evaluation(job, params)["global_test_accuracy"]
    return found | _added(line, costs)


def calibrated(job: Job, params: Tree, t: int) -> tuple[Tree, Costs]:
    """A copy of the model as the method's calibrate parts leave it, or the model itself; and what that cost.

    They work after the last round, and after others where they are told to.
    """
    costs = Costs(job.net.travelling_bytes(params, job.batch_norm), air_of(job.roster, job.seed, t))
    model = params
    for part in job.method.calibrate:
        if part.due(t == job.rounds):
            query = Questions(job, costs, model)
            model = part.calibrate(model, job.net, job.roster, query, t, job.seed)
    return model, costs


def evaluation(job: Job, model: Tree, clients: bool = False) -> dict[str, Any]:
    """A model on the global test set, by class too; and on clients' own data where asked."""
    sums = job.engine.evaluate(job, model)
    loss = float(sums.loss.sum() / sums.count.sum())
    found: dict[str, Any] = {
        "global_test_accuracy": float(sums.right.sum() / sums.count.sum()),
        "global_test_loss": loss if np.isfinite(loss) else None,
        "per_class_accuracy": [
            float(c / n) if n else None for c, n in zip(sums.right, sums.count, strict=True)
        ],
    }
    if clients:
        own = job.dealt or job.roster  # a client's own: not what it was sent or made
        sums = job.engine.evaluate(job, model, np.flatnonzero(own.sizes), OWN)
        held = np.flatnonzero(own.sizes)[sums.count > 0]  # not everybody may have brought test data
        shares = sums.means()["accuracy"][sums.count > 0]
        found["mean_client_accuracy"] = float(shares.mean())
        found["worst_client_accuracy"] = float(shares.min())
        if own.names is not None:
            found["worst_client"] = own.name_of(int(held[shares.argmin()]))
    return found


def _added(line: dict[str, Any], costs: Costs) -> dict[str, Any]:
    """The line with these bytes on top, and the time they were on the air."""
    kinds = {way: Counter(line["bytes"][way]) for way in line["bytes"]}
    for way, counted in (("down", costs.down), ("up", costs.up)):
        kinds[way].update(counted)
    totals = {f"bytes_{way}": counted.total() for way, counted in kinds.items()}
    more = {"bytes": {way: dict(sorted(counted.items())) for way, counted in kinds.items()}}
    if costs.air and costs.air.seconds:
        spent = round(costs.air.seconds, 6)
        more |= {"air_s": round(line["air_s"] + spent, 6), "air": line["air"] | {"calibrate": spent}}
    return line | totals | more

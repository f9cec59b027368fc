"""How a model is judged: calibrated first where a method says so, then tried on the test set."""

from __future__ import annotations

from collections import Counter
from typing import Any

from unskew.core.air import air_of
from unskew.core.engine import RunPlan
from unskew.core.evaluate_clients import judge_own_models
from unskew.core.ledger import Ledger
from unskew.core.query import RunQuestions
from unskew.core.score import evaluate_model, name_scores, score_test
from unskew.core.state import State
from unskew.core.types import Tree


def judge_round(run: RunPlan, state: State, line: dict[str, Any], clients: bool = False) -> dict[str, Any]:
    """A round's line with how the model that stands after it does, and what calibrating it cost.

    Where a method calibrates, the accuracy is that of the calibrated copy, and the model's own stands beside it.
    Where clients keep their models, each is judged, and the state remembers what was found.
    """
    if not run.job.method.schedule.exchanges:
        return run.measuring.added_to(judge_own_models(run, state, clients) | line)
    params = state.params
    model, ledger = calibrate_copy(run, params, state.round)
    found = evaluate_model(run, model, clients)
    if model is not params:
        plain = name_scores(score_test(run, run.engine.evaluate(run.job, params)), {})
        found["uncalibrated_test_accuracy"] = plain["global_test_accuracy"]
    return run.measuring.added_to(found | _added(line, ledger))


def calibrate_copy(run: RunPlan, params: Tree, t: int) -> tuple[Tree, Ledger]:
    """A copy of the model as the method's calibrate parts leave it, or the model itself; and what that cost.

    They work after the last round, and after others where they are told to.
    """
    job = run.job
    ledger = Ledger(job.net.travelling_bytes(params, job.batch_norm), air_of(job.roster, job.seed, t))
    model = params
    for part in job.method.calibrate:
        if part.due(t == run.end):
            query = RunQuestions(run, ledger, model)
            model = part.calibrate(model, job.net, job.roster, query, t, job.seed)
    return model, ledger


def _added(line: dict[str, Any], ledger: Ledger) -> dict[str, Any]:
    """The line with these bytes on top, and the time they were on the air."""
    kinds = {way: Counter(line["bytes"][way]) for way in line["bytes"]}
    for way, counted in (("down", ledger.down), ("up", ledger.up)):
        kinds[way].update(counted)
    totals = {f"bytes_{way}": counted.total() for way, counted in kinds.items()}
    more = {"bytes": {way: dict(sorted(counted.items())) for way, counted in kinds.items()}}
    if ledger.air and ledger.air.seconds:
        spent = round(ledger.air.seconds, 6)
        more |= {"air_s": round(line["air_s"] + spent, 6), "air": line["air"] | {"calibrate": spent}}
    return line | totals | more

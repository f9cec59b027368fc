"""What came out of a run: the content of ``result.json``."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from unskew.core.client_tests import list_client_tests
from unskew.core.evaluate_clients import list_by_client, own_models
from unskew.core.measuring import WAYS, Measuring, measuring_bytes
from unskew.core.state import State
from unskew.core.store import raw
from unskew.core.types import Tree
from unskew.runs.folder import RunFolder
from unskew.runs.guessing import no_better, verdict
from unskew.runs.judged_by import summarise
from unskew.runs.loading import auto_model
from unskew.runs.setup import Setup
from unskew.runs.spec import Spec

TOTALS = (
    "bytes_down",
    "bytes_up",
    "bytes_peer",
    "sample_steps",
    "samples_used",
    "asked",
    "answered",
    "wall_s",
)
"""Costs that a result adds up over the rounds."""


def summary(spec: Spec, setup: Setup, folder: RunFolder, state: State) -> dict[str, Any]:
    """What came out: accuracies that say what they are, costs added up, what was disclosed."""
    last = next(line for line in reversed(folder.lines) if "global_test_accuracy" in line)
    scores = summarise(spec.metrics, spec.target, setup.about, folder.lines)
    totals = {
        name: sum(line.get(name, 0) for line in folder.lines)
        for name in (*TOTALS, *(["air_s"] if spec.network is not None else []))
    }
    known = setup.about["most_frequent"]
    guesses = no_better(last["global_test_accuracy"], known)
    return {
        "status": "done",
        **({"verdict": f"{spec.method} is {verdict(known)}"} if guesses else {}),
        "method": spec.method,
        **scores,
        "no_better_than_most_frequent": guesses,
        "most_frequent": known,
        "balanced_accuracy": scores["final"]["balanced_accuracy"],
        "final_loss": last["global_test_loss"],
        "rounds": state.round,
        "totals": totals,
        "distinct_clients": folder.lines[-1].get("distinct_clients"),
        "rejected": sum(len(line.get("rejected", [])) for line in folder.lines),
        "late": sum(len(line.get("late", [])) for line in folder.lines),
        **setup.skew,
        "discloses": [*setup.job.method.discloses, *setup.fitted_disclosure()],
        "data": setup.about,
        **({} if setup.job.method.schedule.exchanges else {"own_models": list_by_client(setup.run, state)}),
        **(list_client_tests(setup.run, state) if spec.judges_clients else {}),
        "model_sha256": fingerprint(state),
        "seed": spec.seed,
        "effective": {
            "model": auto_model(spec.model, setup.job.roster.dataset),
            "engine": setup.run.engine.name,
            "runs_on": setup.run.engine.choice(setup.run),
            "cohort": setup.run.cohort,
        },
    }


def add_apart(result: dict[str, Any], folder: RunFolder, measuring: Measuring) -> dict[str, Any]:
    """The result with the bytes that are counted apart from the method's: what was measured, what views were told.

    What was measured after the last round stands in the result itself.
    """
    result = measuring.added_to(result)
    counted = [measuring_bytes(told) for told in (*folder.lines, result)]
    totals = {f"bytes_measuring_{way}": sum(one[way] for one in counted) for way in WAYS}
    if views := sum(sum(line.get("told_for_views", {}).values()) for line in folder.lines):
        totals["bytes_told_for_views"] = views
    if any("sites" in line for line in folder.lines):  # as they travelled, beside those that a method counts
        for way in WAYS:
            totals[f"bytes_travelled_{way}"] = sum(line["sites"][f"bytes_{way}"] for line in folder.lines)
        away = Counter(site for line in folder.lines for site in line["sites"].get("lost", {}))
        result["rounds_without"] = dict(sorted(away.items()))
    return result | {"totals": result["totals"] | totals}


def fingerprint(state: State) -> str:
    """A fingerprint of the trained model; of every client's, where each keeps its own."""
    found = [f"{client}:{params_hash(model)}" for client, model in own_models(state)]
    return hashlib.sha256("\n".join(found).encode()).hexdigest() if found else params_hash(state.params)


def params_hash(params: Tree) -> str:
    """A fingerprint of a model: equal if and only if every bit is."""
    content = hashlib.sha256()
    for name in sorted(params):
        value = params[name]
        content.update(json.dumps([name, str(value.dtype), list(value.shape)]).encode())
        content.update(raw(value))
    return content.hexdigest()

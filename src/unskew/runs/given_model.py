"""A model given in Python, which a run's folder knows by its fingerprints alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.runs.result import params_hash
from unskew.runs.setup import Setup


def model_fingerprints(setup: Setup) -> dict[str, str]:
    """Hashes of a model given in Python: of all that it begins with, and of what no checkpoint holds."""
    net = setup.job.net
    kept = set(net.trainable) | (set(net.buffers) if setup.job.batch_norm == "average" else set())
    every = (*net.judging.named_parameters(), *net.judging.named_buffers())
    return {
        "initial_sha256": params_hash(setup.state.params),
        "frozen_sha256": params_hash({name: value for name, value in every if name not in kept}),
    }


def refuse_other_model(path: Path, began: dict[str, Any], given: dict[str, str], anew: bool) -> None:
    """Refuse a model that would give other numbers; runs of versions that took no fingerprint are trusted."""
    if began.get("frozen_sha256", given["frozen_sha256"]) != given["frozen_sha256"]:
        raise InputError(
            f"the model given to {path} has other frozen weights or statistics than the one that the run began "
            "with; give it the same model"
        )
    if anew and began.get("initial_sha256", given["initial_sha256"]) != given["initial_sha256"]:
        raise InputError(
            f"{path} has no checkpoint to go on from, and the model given has other weights than the one that the "
            "run began with; give it the same model"
        )

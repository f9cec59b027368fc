"""What travels to a worker: the job, pickled as it is."""

from __future__ import annotations

import pickle
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from unskew.core.engine import Job
from unskew.core.method import Method
from unskew.engines import Loop
from unskew.testing.toy_federation import play, ready


class Posted(Loop):
    """The loop engine, where every job that it is handed has gone through the post."""

    def visit(self, job: Job, *rest: Any) -> Any:
        return super().visit(pickle.loads(pickle.dumps(job)), *rest)

    def query(self, job: Job, *rest: Any) -> Any:
        return super().query(pickle.loads(pickle.dumps(job)), *rest)

    def evaluate(self, job: Job, *rest: Any) -> Any:
        return super().evaluate(pickle.loads(pickle.dumps(job)), *rest)


@pytest.mark.parametrize(
    "method",
    [
        "fedavg",
        "scaffold",
        "fedprox(0.1)+oversample",
        "fed_data(0.5)+fedlc",
        "flea(dense1, share=0.5)",
        "ccvr",
    ],
)
def test_a_job_that_was_pickled_gives_the_same_numbers(method: str) -> None:
    """Bit for bit in every verb, with a learning rate that falls over the run's rounds."""
    settings = {"evaluate_clients": True, "decay": "linear(0.1)", "rounds": 2}
    here, posted = (play(Method.parse(method), engine=engine, **settings) for engine in (Loop(), Posted()))
    assert here == posted


def test_a_job_has_nothing_of_the_run() -> None:
    """Who carries it out, how long it lasts and what goes wrong are the server's."""
    assert not {f.name for f in fields(Job)} & {"engine", "rounds", "cohort", "faults", "dealt"}


def test_a_roster_that_travels_leaves_the_servers_own_behind() -> None:
    """How much everybody holds goes; label counts and the test set do not."""
    roster = ready(Method.parse("fed_data(0.5)")).job.roster
    travelled = pickle.loads(pickle.dumps(roster))
    for name in ("sizes", "budget", "weigh", "pooled", "mean_weight"):
        assert np.array_equal(getattr(travelled, name), getattr(roster, name))
    assert not travelled.counted
    assert len(travelled.dataset.y_test) == 0

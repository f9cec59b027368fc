"""A model that is no better than the most frequent class: the result says so, first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.data import from_arrays
from unskew.readings import METRICS
from unskew.runs.guessing import most_frequent, no_better
from unskew.runs.running import run

SETTINGS: dict[str, Any] = {"partition": "iid", "clients": 4, "cohort": 4, "rounds": 2, "progress": False}


def patients(signal: float) -> Any:
    """90 healthy of 100, in training and in test; the feature tells who is ill by this much."""
    y = np.array([1 if at % 10 == 0 else 0 for at in range(200)])
    x = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32) + signal * y[:, None]
    return from_arrays(x[:100], y[:100], x[100:], y[100:], labels=("healthy", "ill"))


def test_the_verdict_stands_before_the_numbers() -> None:
    """Noise of which 90% is healthy: always 'healthy' is all that there is to learn."""
    ended = run(dataset=patients(0.0), lr=0.01, **SETTINGS)
    result = ended.result
    assert list(result)[:2] == ["status", "verdict"]
    assert result["verdict"] == (
        "fedavg is no better than always answering 'healthy', the most frequent class (90.0% of the test samples)"
    )
    assert result["no_better_than_most_frequent"] is True
    assert result["balanced_accuracy"] == pytest.approx(np.mean(ended.folder.lines[-1]["per_class_accuracy"]))


def test_a_model_that_has_learnt_is_not_accused() -> None:
    result = run(dataset=patients(4.0), lr=0.3, epochs=20, **SETTINGS).result
    assert result["final"]["accuracy"] > 0.9
    assert result["no_better_than_most_frequent"] is False
    assert "verdict" not in result


def test_equal_is_no_better_and_unknown_is_no_verdict() -> None:
    known = most_frequent(patients(0.0))
    assert known == {"class": "healthy", "share": 0.9}
    assert no_better(0.9, known)
    assert not no_better(0.91, known)
    assert not no_better(0.5, None)


def test_a_constant_answer_has_the_balanced_accuracy_of_chance() -> None:
    """One class right, one wrong, one that the test set lacks: (1 + 0) / 2."""
    balanced = METRICS["balanced_accuracy"]
    assert balanced.of_line({"per_class_accuracy": [1.0, 0.0, None]}) == 0.5
    assert balanced.of_line({"per_class_accuracy": [None]}) is None


def test_the_terminal_says_it_first(tmp_path) -> None:
    """Before the table of numbers."""
    flags = "run --dataset digits --rounds 1 --clients 5 --cohort 1 --lr 1e-9 --evaluate 1 --steps 1"
    shown = CliRunner().invoke(app, [*flags.split(), "--out", str(tmp_path / "run")])
    assert shown.exit_code == 0
    said, final = shown.stdout.find("no better than always answering"), shown.stdout.find("final")
    assert 0 <= said < final

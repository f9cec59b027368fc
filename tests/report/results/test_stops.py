"""Runs that ended early are never compared in silence with runs of other rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from run_folders import WriteRun
from unskew.report import write_report
from unskew.report.results.comparison import Comparison, compare
from unskew.report.results.gather import gather
from unskew.report.results.repeat import alone
from unskew.runs.watchers import Stopped

RULE: dict[str, Any] = {"rounds": 9, "stop": "accuracy > 0.5"}


def stopped(rounds: int, reason: str = "accuracy > 0.5", by: str = "stop") -> dict[str, Any]:
    """The result of a run that was to have nine rounds."""
    return {"stopped": Stopped(reason, by, rounds, rounds, 9).as_dict()}


def untested(compared: Comparison) -> dict[str, str]:
    """Label -> why it is not compared with its baseline."""
    ((_, rows),) = compared.tables
    return {row.group.label: row.difference.why for row in rows if row.difference and row.difference.why}


@pytest.fixture
def mixed(write_run: WriteRun, tmp_path: Path) -> Path:
    """fedavg has all nine rounds, full ended after two of nine; two seeds each."""
    for seed in (0, 1):
        write_run(f"fedavg-{seed}", [0.1 * k for k in range(9)], method="fedavg", seed=seed)
        write_run(f"full-{seed}", [0.4, 0.6 + seed / 50], method="full", seed=seed, result=stopped(2), **RULE)
    return tmp_path


def test_a_run_stopped_early_is_not_tested_against_one_of_all_rounds(mixed: Path) -> None:
    """And the headline says which ended when, why, and on what that was chosen."""
    compared = compare(mixed)
    assert untested(compared) == {
        "full · stop=accuracy > 0.5": "it was stopped after 2 rounds, its baseline played 9"
    }
    said = (
        "Stopped early: full · stop=accuracy > 0.5 after round 2 of 9 (accuracy > 0.5). Their final numbers are of "
        "those rounds. The end was chosen on the test set itself; validation = 0.1 would choose it without."
    )
    assert said in compared.headline.lead
    told = compared.as_dict()
    assert told["problems"][0]["stopped_note"] == said
    assert {run["stopped"] for run in told["runs"]} == {None, "accuracy > 0.5 at round 2 of 9"}
    page = write_report(mixed, mixed / "a.html").read_text()
    assert "done, stopped: accuracy &gt; 0.5" in page
    assert "2 of 9" in page


def test_a_baseline_that_stopped_early_is_passed_over(write_run: WriteRun, tmp_path: Path) -> None:
    """It has had fewer rounds than the others."""
    write_run("fedavg", [0.4, 0.6], method="fedavg", result=stopped(2), **RULE)
    write_run("full", [0.1 * k for k in range(9)], method="full")
    compared = compare(tmp_path)
    assert "since it played 2 rounds, others 9" in compared.notes[0]


def test_runs_that_one_rule_ended_at_different_rounds_are_compared(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """A budget spent by all is what makes it fair; the rounds are said."""
    for seed in (0, 1):
        by = {"rounds": 9, "budget": "1MB"}
        fast, slow = (
            stopped(2, "the budget of 1MB (0.9 MB spent)", "budget"),
            stopped(3, "the budget of 1MB", "budget"),
        )
        write_run(f"fedavg-{seed}", [0.4, 0.5 + seed / 50], method="fedavg", seed=seed, result=fast, **by)
        write_run(f"full-{seed}", [0.4, 0.5, 0.6 + seed / 99], method="full", seed=seed, result=slow, **by)
    compared = compare(tmp_path)
    assert not untested(compared)
    assert compared.notes == ("",)
    assert (
        "fedavg after round 2 of 9 (the budget of 1MB (0.9 MB spent)); full after round 3 of 9"
        in compared.stops[0]
    )
    assert "chosen on the test set" not in compared.stops[0]


def test_seeds_that_end_apart_are_told_by_their_span(write_run: WriteRun, tmp_path: Path) -> None:
    """With the setting, where their reasons differ; validation samples need no warning."""
    settings = {"rounds": 9, "patience": 1, "validation": 0.1}
    for seed, rounds in ((0, 2), (1, 4)):
        told = stopped(rounds, f"no better accuracy than 0.{rounds}", "patience")
        write_run(f"a-{seed}", [0.4] * rounds, method="fedavg", seed=seed, result=told, **settings)
    write_run("a-2", [0.1 * k for k in range(9)], method="fedavg", seed=2, **settings)
    assert compare(tmp_path).stops == (
        "Stopped early: fedavg after rounds 2 to 4 of 9, 2 of 3 seeds (patience = 1). Their final numbers are of "
        "those rounds.",
    )


def test_a_recipe_says_that_a_watcher_is_missing(write_run: WriteRun, tmp_path: Path) -> None:
    """A file of settings cannot bring it along."""
    write_run("a", [0.4], method="fedavg", rounds=9, result=stopped(1, "enough", "Enough"))
    ((problem, _),) = compare(tmp_path).tables
    (note,) = alone(problem.groups[0]).notes
    assert note == "A watcher given in Python ended it: repeat it there, with watch=[...] in unskew.run()."
    assert gather(tmp_path)[0].ends_after == 1

"""What comes first in a headline: a model that only guesses, and clients that would do better on their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unskew.report.results.comparison import compare
from unskew.report.results.page import save_report

WriteRun = Callable[..., Path]


def stays(write_run: WriteRun, each: Sequence[float], seed: int = 0) -> None:
    """A run of local_only whose clients, north, south, ..., end with these accuracies."""
    names = ("north", "south", "east", "west")
    told = {"clients": len(each), "of": len(each), "min": min(each), "max": max(each)}
    listed = [{"client": name, "accuracy": value} for name, value in zip(names, each, strict=False)]
    mean = sum(each) / len(each)
    write_run(
        f"local-{seed}",
        [0.1, mean],
        method="local_only",
        seed=seed,
        lines={"own_models": told, "bytes": {}, "bytes_up": 0, "bytes_down": 0},
        result={"own_models": told | {"each": listed}},
    )


def guessed(share: float) -> dict[str, Any]:
    return {"most_frequent": {"class": "healthy", "share": share}}


def test_staying_alone_is_the_lower_bound(write_run: WriteRun, tmp_path: Path) -> None:
    """Mean 0.5 between 0.4 and 0.6, all below fedavg's 0.8; it wins nothing and is no baseline."""
    write_run("fedavg", [0.2, 0.8], method="fedavg")
    write_run("centralized", [0.2, 0.9], method="centralized")
    stays(write_run, [0.4, 0.6])
    compared = compare(tmp_path)
    assert compared.headline.title == "fedavg reaches 80.0% global test accuracy"
    assert compared.headline.lead.endswith(
        "The upper bound, centralized, reaches 90.0%. The lower bound, local_only: a client on its own reaches 50.0% "
        "on average, between 40.0% and 60.0%; 2 of 2 do better with fedavg."
    )
    rows = {row.group.label: row.as_dict() for row in compared.tables[0][1]}
    assert [rows[name]["lower_bound"] for name in ("fedavg", "centralized", "local_only")] == [
        False,
        False,
        True,
    ]


def test_a_federation_below_its_clients_is_said_first(write_run: WriteRun, tmp_path: Path) -> None:
    """On average 0.7 alone, 0.6 together: the title does not praise fedavg."""
    write_run("fedavg", [0.2, 0.6], method="fedavg")
    stays(write_run, [0.5, 0.9])
    said = compare(tmp_path).headline
    assert (
        said.title
        == "Joining has not paid on one seed: a client on its own reaches 70.0% on average, fedavg 60.0%"
    )
    assert "1 of 2 do better with fedavg" in said.lead


def test_the_page_lists_every_site_by_its_name(write_run: WriteRun, tmp_path: Path) -> None:
    """North gains 40 points, south 20."""
    write_run("fedavg", [0.2, 0.8], method="fedavg")
    stays(write_run, [0.4, 0.6])
    save_report(compare(tmp_path), tmp_path / "report.html")
    text = re.sub(r' data-title="[^"]*"', "", (tmp_path / "report.html").read_text())
    assert "Should a client join?" in text
    assert (
        '<td>north</td><td class="number">40.0</td><td class="number">80.0</td><td class="number">+40.0</td>'
        in text
    )
    assert "nothing at all: no model leaves a client" in text


def test_a_model_that_only_guesses_is_said_first(write_run: WriteRun, tmp_path: Path) -> None:
    """93% where 93% of the test samples are healthy is worth nothing."""
    write_run("fedavg", [0.9, 0.93], method="fedavg", data=guessed(0.93))
    said = compare(tmp_path).headline
    assert (
        said.title == "fedavg is no better than always answering 'healthy', the most frequent class "
        "(93.0% of the test samples)"
    )
    assert said.lead.startswith("fedavg reaches 93.0% global test accuracy.")


def test_the_best_of_several_that_guess_is_no_winner(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("fedavg", [0.90], method="fedavg", data=guessed(0.93))
    write_run("full", [0.92], method="full", data=guessed(0.93))
    title = compare(tmp_path).headline.title
    assert title.startswith(
        "All methods, the best of them full, are no better than always answering 'healthy'"
    )


def test_those_that_guess_are_named_beside_one_that_does_not(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("fedavg", [0.93], method="fedavg", data=guessed(0.93))
    write_run("full", [0.95], method="full", data=guessed(0.93))
    said = compare(tmp_path).headline
    assert said.title.startswith("full is ahead of fedavg")
    assert said.lead.endswith(
        "No better than always answering 'healthy', the most frequent class (93.0% of the test samples): fedavg."
    )


def test_runs_of_earlier_versions_are_not_accused(write_run: WriteRun, tmp_path: Path) -> None:
    """Where the most frequent class is not known, nothing is said of it."""
    write_run("fedavg", [0.05], method="fedavg")
    assert compare(tmp_path).headline.title == "fedavg reaches 5.0% global test accuracy"


def test_a_client_that_only_draws_level_does_not_gain(write_run: WriteRun, tmp_path: Path) -> None:
    """South has fedavg's accuracy already."""
    write_run("fedavg", [0.2, 0.6], method="fedavg")
    stays(write_run, [0.5, 0.6])
    assert "1 of 2 do better with fedavg" in compare(tmp_path).headline.lead


def test_clients_on_their_own_have_not_diverged_where_one_answer_is_not_finite(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """None of them answers, since none is asked to: what counts is that others trained on."""
    lines = {
        "rejected": ["north"],
        "answered": 0,
        "trained_only": 10,
        "own_models": {"clients": 10, "of": 10},
    }
    write_run("local", [0.5, 0.6], method="local_only", lines=lines)
    write_run("fedavg", [0.2, 0.7], method="fedavg", lines={"rejected": [1], "answered": 0})
    found = {r["method"]: r["diverged"] for r in compare(tmp_path).as_dict()["runs"]}
    assert found == {"local_only": False, "fedavg": True}

"""What a report says of clients' own test samples, and on what rounds and settings were chosen."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unskew.report.results.choice import choices
from unskew.report.results.comparison import compare
from unskew.report.results.gather import gather
from unskew.report.results.page import save_report
from unskew.report.results.tested import client_scatter

WriteRun = Callable[..., Path]


def validated(write_run: WriteRun, name: str, rounds: list[tuple[float, float]], **settings: Any) -> None:
    """A run whose rounds have these accuracies on the test set and on validation samples."""
    folder = write_run(name, [test for test, _ in rounds], validation=0.1, **settings)
    log = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    for line, (_, chosen) in zip(log, rounds, strict=True):
        line["validation_accuracy"] = chosen
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))


def by_client(write_run: WriteRun, name: str, accuracies: dict[str, float], **settings: Any) -> None:
    """A run that ends with these accuracies on clients' own test samples."""
    each = [
        {"client": who, "accuracy": share, "tested": 4, "samples": 10 * at, "emd": 0.5 * at}
        for at, (who, share) in enumerate(accuracies.items(), 1)
    ]
    values = list(accuracies.values())
    told = {"clients": len(each), "of": len(each), "mean": sum(values) / len(values), "sd": 0.1}
    told |= {"min": min(values), "p25": 0.5, "median": 0.5, "p75": 0.5, "max": max(values), "each": each}
    write_run(name, [0.2, 0.8], result={"client_tests": told}, client_test=0.2, **settings)


def test_the_best_round_of_a_run_with_validation_is_chosen_there(write_run: WriteRun, tmp_path: Path) -> None:
    """0.9 on the test set is not taken, since round 2 is best on validation; the report says so."""
    validated(write_run, "run", [(0.5, 0.4), (0.7, 0.8), (0.9, 0.6)])
    compared = compare(tmp_path)
    row = compared.tables[0][1][0]
    assert (row.best.mean, row.best_rounds, row.chosen_on) == (0.7, (2,), "validation")
    assert "best 70.0% after round 2, chosen on validation." in compared.headline.lead
    best = compared.as_dict()["runs"][0]["best"]
    assert (best["accuracy"], best["round"], best["chosen_on"]) == (0.7, 2, "validation")


def test_without_validation_the_best_was_chosen_on_the_test_set_and_it_is_said(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """The highest of all rounds."""
    write_run("run", [0.5, 0.9, 0.7])
    assert "best 90.0% after round 2, chosen on the test set." in compare(tmp_path).headline.lead


def test_settings_are_chosen_on_validation(write_run: WriteRun, tmp_path: Path) -> None:
    """lr=0.1 is better on the test set, lr=0.2 on validation: that is taken, and its test accuracy told."""
    for seed in (0, 1):
        validated(write_run, f"a{seed}", [(0.9, 0.5)], lr=0.1, seed=seed)
        validated(write_run, f"b{seed}", [(0.8, 0.6)], lr=0.2, seed=seed)
    (choice,) = choices(compare(tmp_path).tables[0][1])
    assert choice.in_words() == (
        "Of 2 settings of fedavg, fedavg · lr=0.2 is chosen on validation (0.6000) and has 0.8000 global test "
        "accuracy, means of 2 seeds."
    )


def test_settings_chosen_on_the_test_set_are_said_to_be(write_run: WriteRun, tmp_path: Path) -> None:
    """One run without validation samples is enough."""
    write_run("a", [0.9], lr=0.1)
    write_run("b", [0.8], lr=0.2)
    (choice,) = choices(compare(tmp_path).tables[0][1])
    assert choice.on == "test"
    assert (
        "lr=0.1 is chosen on the test set (0.9000 accuracy), so that number is too good" in choice.in_words()
    )


def test_other_values_of_a_part_are_settings_of_one_method(write_run: WriteRun, tmp_path: Path) -> None:
    """fedprox(0.1) and fedprox(1) are chosen between; fedavg is another method."""
    write_run("a", [0.7], method="fedprox(0.1)")
    write_run("b", [0.8], method="fedprox(1)")
    write_run("c", [0.9], method="fedavg")
    (choice,) = choices(compare(tmp_path).tables[0][1])
    assert (choice.of, choice.settings, choice.among) == ("fedprox", "fedprox(1)", 2)


def test_the_page_shows_every_client_by_name_size_and_skew(write_run: WriteRun, tmp_path: Path) -> None:
    """A table of spreads, a point a client, and a line a client."""
    by_client(write_run, "fedavg", {"north": 0.25, "south": 0.75})
    by_client(write_run, "sem", {"north": 0.5, "south": 1.0}, method="sem")
    save_report(compare(tmp_path), page := tmp_path / "report.html")
    text = page.read_text()
    assert "Every client on its own test samples" in text
    assert "25.00 (north)" in text
    for word in ("north", "south", "accuracy on its own test samples", "EMD of its labels"):
        assert word in text


def test_a_point_is_a_client() -> None:
    """Size on x, accuracy on y, EMD as colour; one picture a method."""
    each = [{"client": "a", "accuracy": 0.4, "tested": 2, "samples": 8, "emd": 0.7}]
    run = type("Run", (), {"result": {"client_tests": {"each": each}}})()
    drawn = client_scatter({"fedavg": run}).to_dict()
    assert [drawn["encoding"][k]["field"] for k in ("x", "y", "color")] == ["samples", "accuracy", "emd"]
    (points,) = drawn["datasets"].values()
    assert [*points] == [each[0] | {"label": "fedavg"}]


@pytest.mark.parametrize(("of_clients", "kind"), [(True, "test"), (False, "train")])
def test_old_logs_are_read_by_the_new_names(write_run: WriteRun, of_clients: bool, kind: str) -> None:
    """They did not say on which samples: test samples where clients brought them, else training samples."""
    old = {"mean_client_accuracy": 0.5, "worst_client_accuracy": 0.25}
    folder = write_run("old", [0.5], lines=old, data={"of_clients": True} if of_clients else {})
    (record,) = gather(folder)
    assert record.lines[0][f"mean_client_{kind}_accuracy"] == 0.5
    assert record.lines[0][f"worst_client_{kind}_accuracy"] == 0.25

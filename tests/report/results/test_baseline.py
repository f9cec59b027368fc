"""A faulty baseline is not the baseline unless it is named, and then it is said to be faulty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unskew.report import write_report
from unskew.report.results.comparison import Comparison, compare

WriteRun = Callable[..., Path]


def against(compared: Comparison) -> dict[str, str | None]:
    """What every group of the only problem is compared with, by label."""
    ((_, rows),) = compared.tables
    return {row.group.label: row.baseline.label if row.baseline else None for row in rows}


def sound(write_run: WriteRun) -> None:
    """Two methods over two seeds with nothing wrong."""
    for seed in (0, 1):
        write_run(f"sem-{seed}", [0.4, 0.50 + seed / 100], method="sem", seed=seed)
        write_run(f"full-{seed}", [0.4, 0.60 + seed / 50], method="full", seed=seed)


def test_a_sound_baseline_needs_no_words(write_run: WriteRun, tmp_path: Path) -> None:
    """fedavg where it was run and came to its end."""
    sound(write_run)
    write_run("fedavg-0", [0.3, 0.4], method="fedavg")
    compared = compare(tmp_path)
    assert set(against(compared).values()) == {"fedavg"}
    assert compared.notes == ("",)


@pytest.mark.parametrize("loss", [None, float("nan"), float("inf"), 1e12])
def test_a_diverged_baseline_is_passed_over_and_named(
    write_run: WriteRun, tmp_path: Path, loss: float | None
) -> None:
    """fedavg blew up on one of two seeds: sem, the next in line, takes its place, in the headline's sentence."""
    for seed in (0, 1):
        blown = {"global_test_loss": loss} if seed else {}
        write_run(f"fedavg-{seed}", [0.1, 0.1], method="fedavg", seed=seed, lines=blown)
    for seed in (0, 1):
        write_run(f"full-{seed}", [0.4, 0.60 + seed / 50], method="full", seed=seed)
        write_run(f"sem-{seed}", [0.4, 0.50 + seed / 100], method="sem", seed=seed)
    compared = compare(tmp_path)
    assert set(against(compared).values()) == {"full"}
    said = "fedavg is not the baseline, since it diverged in 1 of 2 seeds: others are compared with full."
    assert said in compared.headline.lead
    assert compared.as_dict()["problems"][0]["baseline_note"].startswith(said)
    assert said in write_report(tmp_path, tmp_path / "a.html").read_text()
    assert "% fedavg is not the baseline" in write_report(tmp_path, tmp_path / "a.tex").read_text()
    assert "diverged</span>" in (tmp_path / "a.html").read_text()


def test_a_baseline_whose_answers_were_all_refused_has_diverged(write_run: WriteRun, tmp_path: Path) -> None:
    """Every client sent NaN, so the model never moved: its loss is finite, and it says nothing."""
    sound(write_run)
    write_run("fedavg", [0.1, 0.1], method="fedavg", lines={"answered": 0, "rejected": [1, 2]})
    assert "since it diverged" in compare(tmp_path).notes[0]


def test_a_failed_baseline_is_passed_over_and_named(write_run: WriteRun, tmp_path: Path) -> None:
    """Also where it failed before it was ever judged, and so has no line in the leaderboard."""
    sound(write_run)
    failed = {"status": "failed", "result": {"error": "ValueError: no"}}
    write_run("fedavg", [None], method="fedavg", rounds=2, **failed)
    compared = compare(tmp_path)
    assert "fedavg" not in against(compared)
    assert compared.notes[0].startswith("fedavg is not the baseline, since its run is not done (1 failed): ")
    assert "fedavg, seed 0: failed after round 1" in write_report(tmp_path, tmp_path / "a.html").read_text()


def test_a_baseline_of_fewer_rounds_is_passed_over_and_named(write_run: WriteRun, tmp_path: Path) -> None:
    """One round against two."""
    write_run("fedavg", [0.3], method="fedavg")
    sound(write_run)
    compared = compare(tmp_path)
    assert "fedavg" not in set(against(compared).values())
    assert "since it played 1 round, others 2: " in compared.notes[0]


def test_a_faulty_baseline_that_was_named_is_taken_and_said_to_be_faulty(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """--baseline fedavg overrules, with a warning in the headline."""
    sound(write_run)
    for seed in (0, 1):
        write_run(f"fedavg-{seed}", [0.1, 0.1], method="fedavg", seed=seed, lines={"global_test_loss": None})
    compared = compare(tmp_path, "fedavg")
    assert set(against(compared).values()) == {"fedavg"}
    ((_, rows),) = compared.tables
    assert rows[0].difference is not None
    assert rows[0].difference.mean == pytest.approx(0.51)
    assert "The baseline fedavg is faulty: it diverged in 2 of 2 seeds;" in compared.headline.lead


def test_where_nothing_is_sound_nothing_is_compared(write_run: WriteRun, tmp_path: Path) -> None:
    """Both blew up: neither is a measure of the other."""
    for method in ("fedavg", "full"):
        write_run(method, [0.1, 0.1], method=method, lines={"global_test_loss": None})
    compared = compare(tmp_path)
    ((_, rows),) = compared.tables
    assert [row.difference.why for row in rows if row.difference] == ["its baseline diverged"]
    assert "nothing else is sound, so nothing is compared" in compared.headline.lead


def test_a_sweep_over_rounds_compares_like_with_like(write_run: WriteRun, tmp_path: Path) -> None:
    """Each method has a run of one round and one of two: no baseline is short, and nothing is said."""
    for method, value in (("fedavg", 0.3), ("full", 0.4)):
        write_run(f"{method}1", [value], method=method)
        write_run(f"{method}2", [value, value], method=method)
    compared = compare(tmp_path)
    assert against(compared)["full · rounds=1"] == "fedavg · rounds=1"
    assert against(compared)["full · rounds=2"] == "fedavg · rounds=2"
    assert compared.notes == ("",)

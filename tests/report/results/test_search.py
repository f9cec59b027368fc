"""A report over a folder reads what is in it, nested or not, and says what it left out."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from unskew.cli import main
from unskew.errors import InputError
from unskew.progress import voice
from unskew.report.results.comparison import compare
from unskew.report.results.gather import gather


def left_out(path: Path) -> dict[str, str]:
    """Where and why, by the names of folders."""
    told = compare(path).as_dict()["left_out"]
    return {str(Path(left["folder"]).relative_to(path)): left["why"] for left in told}


def test_runs_inside_of_runs_are_read(write_run: Any, tmp_path: Path) -> None:
    """A sweep once written into a run's folder, and a folder that is a run and holds others."""
    write_run("outer", [0.5, 0.6], seed=0)
    write_run("outer/cells/a", [0.5, 0.7], seed=1)
    write_run("outer/cells/a/deeper", [0.5, 0.8], seed=2)
    assert [r.spec.seed for r in gather(tmp_path / "outer")] == [0, 1, 2]
    assert [r.spec.seed for r in gather(tmp_path)] == [0, 1, 2]
    assert left_out(tmp_path) == {}


def test_a_run_that_damage_left_no_number_may_repeat_another(write_run: Any, tmp_path: Path) -> None:
    """It is done and its log is empty: there is nothing to hold against the other's numbers."""
    write_run("runs/whole", [0.5, 0.6])
    write_run("runs/emptied", [0.5, 0.6])
    (tmp_path / "runs/emptied/rounds.jsonl").write_text("{\n")
    assert main(["report", str(tmp_path / "runs")]) == 0
    assert ", repeats " in (tmp_path / "runs" / "report.html").read_text()


def test_what_cannot_be_read_is_left_out_and_said(
    write_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One damaged run of many, another tool's spec.json, a newer format, a draft; the others are compared."""
    write_run("runs/good", [0.5, 0.6])
    write_run("runs/damaged", [0.5, 0.6], seed=1)
    (tmp_path / "runs/damaged/spec.json").write_text("{")
    (tmp_path / "runs/openapi").mkdir()
    (tmp_path / "runs/openapi/spec.json").write_text('{"openapi": "3.0"}')
    newer = json.loads((write_run("runs/newer", [0.5], seed=2) / "spec.json").read_text())
    (tmp_path / "runs/newer/spec.json").write_text(json.dumps(newer | {"format": 99}))
    write_run("runs/.draft", [0.5], seed=3)
    told = left_out(tmp_path / "runs")
    assert list(told) == [".draft", "damaged", "newer", "openapi"]
    assert told[".draft"] == "its name begins with a dot"
    assert told["damaged"].endswith("is damaged: it is not the JSON of a run")
    assert "has run format 99" in told["newer"]
    assert main(["report", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert "left out:" in said
    assert f"{tmp_path / 'runs/damaged'}: " in said
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "4 left out" in page
    assert "its name begins with a dot" in page


def test_runs_that_are_in_no_number_are_named(write_run: Any, tmp_path: Path) -> None:
    """A copy, one that was stopped beside finished ones, one that was never judged."""
    write_run("a", [0.5, 0.6], seed=0)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    write_run("c", [0.5, 0.6], seed=1, status="running", rounds=9)
    write_run("d", [0.5] * 9, seed=2, rounds=9)
    write_run("e", [], seed=3, status="failed", result={"error": "out of memory"})
    assert left_out(tmp_path) == {
        "b": f"it has the settings and the seed of {tmp_path / 'a'}",
        "c": "it is interrupted after round 2 of 9, and runs of its kind are done",
        "e": "nothing was evaluated (failed after round 0 of 5: out of memory)",
    }


def test_what_was_named_itself_must_be_readable(write_run: Any, tmp_path: Path) -> None:
    write_run("good", [0.5])
    write_run("damaged", [0.5])
    (tmp_path / "damaged/spec.json").write_text("{")
    with pytest.raises(InputError, match=r"spec.json is damaged"):
        gather([tmp_path / "good", tmp_path / "damaged"])
    shutil.rmtree(tmp_path / "good")
    with pytest.raises(InputError, match=r"spec.json is damaged"):
        gather(tmp_path)
    shutil.copytree(tmp_path / "damaged", tmp_path / "other")
    with pytest.raises(InputError, match="none of 2 runs can be read, the first since"):
        gather(tmp_path)


def test_links_in_a_circle_and_locked_folders_are_no_trap(write_run: Any, tmp_path: Path) -> None:
    """A folder is looked into once; what may not be read is said."""
    write_run("runs/a", [0.5])
    (tmp_path / "runs/a/up").symlink_to(tmp_path / "runs")
    assert len(gather(tmp_path)) == 1
    (tmp_path / "runs/locked").mkdir()
    (tmp_path / "runs/locked").chmod(0)
    try:
        if os.access(tmp_path / "runs/locked", os.R_OK):
            pytest.skip("this user may read everything")
        assert left_out(tmp_path) == {"runs/locked": "it cannot be read (permission denied)"}
    finally:
        (tmp_path / "runs/locked").chmod(0o700)


def test_a_large_tree_gives_a_sign_of_life(
    write_run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once it takes long: how many folders so far, then how many runs of how many."""
    for seed in range(3):
        write_run(f"{seed}", [0.5], seed=seed)
    monkeypatch.setattr("unskew.progress.LINE", 0.0)
    gather(tmp_path)
    said = capsys.readouterr().err
    assert f"looking for runs in {tmp_path}: 1 so far" in said
    assert "reading runs: 1 of 3" in said
    with voice(False):
        gather(tmp_path)
    assert capsys.readouterr().err == ""

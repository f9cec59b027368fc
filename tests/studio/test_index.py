"""All runs of a folder, whatever state they are in."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from run_folders import line_of
from unskew.runs.folder import RunFolder
from unskew.runs.spec import Spec
from unskew.studio import index
from unskew.studio.index import RunIndex
from unskew.studio.tail import LogTail

WriteRun = Callable[..., Path]


@pytest.fixture(autouse=True)
def look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "LOOK_EVERY", 0.0)


def rows(found: RunIndex) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in found.changes(0)["rows"]}


def test_a_run_is_told_by_its_files(write_run: WriteRun, tmp_path: Path) -> None:
    done = {"final": {"accuracy": 0.7}, "best": {"accuracy": 0.8}, "totals": {"wall_s": 3.0}}
    write_run("a/done", [0.5, 0.8, 0.7], result=done, method="sem", seed=4)
    write_run("a/failed", [0.5], status="failed", rounds=3, result={"error": "no more memory"})
    write_run("stopped", [0.5, 0.6], status="running", rounds=10)
    told = rows(RunIndex(tmp_path))
    assert set(told) == {"a/done", "a/failed", "stopped"}
    row = told["a/done"]
    assert (row["status"], row["round"], row["rounds"], row["value"], row["best"]) == ("done", 3, 3, 0.7, 0.8)
    assert (row["settings"]["method"], row["settings"]["seed"]) == ("sem", 4)
    assert told["a/failed"]["problem"] == "no more memory"
    assert (told["stopped"]["status"], told["stopped"]["round"]) == ("interrupted", 2)


def test_a_run_that_somebody_holds_is_running_and_has_time_left(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run("run", [0.5, 0.6], status="running", rounds=10)
    with FileLock(folder / "lock"):
        row = rows(RunIndex(tmp_path))["run"]
    assert (row["status"], row["left"]) == ("running", 8 * 0.5)


def test_only_what_changed_is_told(write_run: WriteRun, tmp_path: Path) -> None:
    for at in range(5):
        write_run(f"run-{at}", [0.5])
    found = RunIndex(tmp_path)
    first = found.changes(0)
    assert len(first["rows"]) == 5
    assert found.changes(first["version"])["rows"] == []
    with (tmp_path / "run-2" / "rounds.jsonl").open("a") as log:
        log.write(json.dumps(line_of(2, 0.9)) + "\n")
    shutil.rmtree(tmp_path / "run-3")
    second = found.changes(first["version"])
    assert [row["name"] for row in second["rows"]] == ["run-2"]
    assert second["gone"] == ["run-3"]
    assert found.changes(10_000)["all"]  # a page of a studio before this one


def test_damaged_runs_and_those_of_other_versions_are_shown_as_such(
    write_run: WriteRun, tmp_path: Path
) -> None:
    for name in ("no-json", "list", "later", "result", "log", "spec-null", "metrics"):
        write_run(name, [0.5, 0.6])
    (tmp_path / "no-json" / "spec.json").write_bytes(b"\xff\x00 half a fi")
    (tmp_path / "list" / "spec.json").write_text("[1]")
    (tmp_path / "later" / "spec.json").write_text('{"format": 99, "unskew": "9.9", "spec": {}}')
    (tmp_path / "result" / "result.json").write_text("{")
    (tmp_path / "log" / "rounds.jsonl").write_text('{"round": 1, "global_te')
    (tmp_path / "spec-null" / "spec.json").write_text('{"format": 1, "spec": null}')
    spec = json.loads((tmp_path / "metrics" / "spec.json").read_text())
    spec["spec"]["metrics"] = ["from_another_world"]
    (tmp_path / "metrics" / "spec.json").write_text(json.dumps(spec))
    (tmp_path / "empty").mkdir()
    (tmp_path / "folder-as-file" / "spec.json").mkdir(parents=True)
    told = rows(RunIndex(tmp_path))
    assert {name for name, row in told.items() if row["status"] == "damaged"} == {
        "no-json", "list", "later", "spec-null",
    }  # fmt: skip
    assert "format 99" in told["later"]["problem"]
    assert told["result"]["problem"] == "result.json is damaged"
    assert told["log"]["round"] == 0
    assert told["metrics"]["metric"] == "from another world"


def test_a_changed_word_in_a_sealed_spec_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").start(Spec(), {})
    assert rows(RunIndex(tmp_path))["run"]["status"] == "interrupted"
    file = tmp_path / "run" / "spec.json"
    file.write_text(file.read_text().replace('"fedavg"', '"fedprox"'))
    assert "checksum" in rows(RunIndex(tmp_path))["run"]["problem"]


def test_a_curve_has_few_points_and_its_last_one(write_run: WriteRun, tmp_path: Path) -> None:
    write_run("run", [at / 500 for at in range(500)])
    found = RunIndex(tmp_path)
    found.changes(0)
    points = found.sparks(["run", "none"])["run"]
    assert len(points) <= index.SPARK_POINTS + 1
    assert (points[0], points[-1]) == (0.0, 0.998)


def test_a_thousand_runs_are_read_once(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look reads no file of the thousand: it asks when they changed."""
    first = write_run("runs/0", [0.5, 0.6, 0.7])
    for at in range(1, 1000):
        shutil.copytree(first, tmp_path / "runs" / str(at))
    found = RunIndex(tmp_path)
    began = time.perf_counter()
    assert len(found.changes(0)["rows"]) == 1000
    print(f"1000 runs in {time.perf_counter() - began:.2f} s")
    monkeypatch.setattr(index, "_read", lambda file: pytest.fail(f"{file} was read again"))
    assert found.changes(1)["rows"] == []


def test_a_tail_gives_whole_lines_once(tmp_path: Path) -> None:
    log = tmp_path / "rounds.jsonl"
    tail = LogTail(log, sealed=False)
    assert tail.read() == (False, [])
    log.write_text('{"round": 1}\n{"rou')
    assert tail.read() == (False, [{"round": 1}])
    assert tail.read() == (False, [])
    with log.open("a") as file:
        file.write('nd": 2}\nnonsense\n{"round": 3}\n')
    assert tail.read() == (False, [{"round": 2}, {"round": 3}])
    log.write_text('{"round": 1}\n')  # resumed from an earlier round
    assert tail.read() == (True, [{"round": 1}])

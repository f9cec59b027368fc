"""``unskew demo``: from real data to a table and a report in one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unskew.cli import demo_experiment as demo
from unskew.cli import main, stopping
from unskew.cli.demo import Bars
from unskew.core.method import Method
from unskew.runs.experiment_file import read_toml
from unskew.runs.folder import read_folder
from unskew.runs.running import run
from unskew.runs.spec import Spec
from unskew.runs.sweep import Cell, cells


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The demo with three methods, two seeds and two rounds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "METHODS", ("fedavg", "centralized", "sem"))
    monkeypatch.setattr(demo, "SEEDS", (0, 1))
    monkeypatch.setattr(demo, "SETTINGS", dict(demo.SETTINGS) | {"rounds": 2, "epochs": 1.0})
    monkeypatch.setattr(demo, "sweep", in_this_process)


def in_this_process(grid, out, *, processes, tell, **settings) -> list[Cell]:
    """A sweep without its processes, which take seconds to start."""
    todo = cells(settings, grid, Path(out))
    for cell in todo:
        cell.status = "running"
        tell(todo)
        run(cell.spec, out=cell.folder, progress=False)
        cell.status = "done"
        tell(todo)
    return todo


@pytest.mark.usefixtures("small")
def test_it_ends_with_a_table_and_the_paths_of_two_reports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What clients hold, what each method reached and cost, and where to read on."""
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    assert "What to try" in out
    head, *rows = out[out.index("method  ") :].splitlines()
    assert head.split()[:6] == ["method", "accuracy", "to", "fedavg", "p", "traffic"]
    assert {row.split()[0] for row in rows[:4]} >= {"fedavg", "centralized"}
    assert "its half-trained model" in out
    assert "6 of 6" in err
    for file in ("diagnosis.html", "report.html", "demo.toml"):
        assert f"runs/demo/{file}" in out
        assert (tmp_path / "runs/demo" / file).is_file()


@pytest.mark.usefixtures("small")
def test_a_second_demo_takes_the_place_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder holds the new one whole, and nothing is left beside it."""
    assert main(["demo"]) == 0
    (tmp_path / "runs/demo/note.txt").write_text("of the first")
    assert main(["demo", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["report"] == "runs/demo/report.html"
    assert {row["method"] for row in told["comparison"]["problems"][0]["leaderboard"]} == set(demo.METHODS)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["demo"]
    assert not (tmp_path / "runs/demo/note.txt").exists()


@pytest.mark.usefixtures("small")
def test_a_demo_that_is_stopped_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draft is thrown away unless all of it is there."""
    assert main(["demo", "-o", "here"]) == 0

    def stopped(*words: object, **settings: object) -> list[Cell]:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "sweep", stopped)
    assert main(["demo", "-o", "here"]) == 130
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert (tmp_path / "here/report.html").is_file()


@pytest.mark.usefixtures("small")
def test_a_run_that_fails_is_named_beside_the_others(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table shows what was done; the exit code is 1."""

    def one_fails(*words, **settings) -> list[Cell]:
        done = in_this_process(*words, **settings)
        done[-1].status, done[-1].error = "failed", "out of luck"
        return done

    monkeypatch.setattr(demo, "sweep", one_fails)
    assert main(["demo"]) == 1
    assert "method=sem,seed=1 failed: out of luck" in capsys.readouterr().out


def test_an_interrupt_that_python_dropped_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next word of its runs does, as in a sweep."""
    monkeypatch.setattr(stopping, "_stopping", True)
    with pytest.raises(KeyboardInterrupt):
        Bars(False)([])


@pytest.mark.parametrize(("there", "said"), [("file", "is a file"), ("folder", "holds no demo")])
def test_what_is_no_demo_is_never_replaced(
    there: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, before anything is done."""
    taken = tmp_path / "taken"
    if there == "file":
        taken.write_text("mine")
    else:
        taken.mkdir()
        (taken / "mine.txt").write_text("mine")
    assert main(["demo", "-o", str(taken)]) == 2
    assert said in capsys.readouterr().err
    assert taken.exists()


def test_its_experiment_file_is_what_it_runs(tmp_path: Path) -> None:
    """Sweeping that file gives the same cells, so the demo can be changed and run again."""
    file = tmp_path / "demo.toml"
    file.write_text(demo.experiment(demo.METHODS, demo.SEEDS, demo.SETTINGS))
    settings, grid = read_toml(file)
    swept = [cell.spec for cell in cells(settings, grid, tmp_path)]
    here = [Spec.of({**demo.SETTINGS, "method": m, "seed": s}) for m in demo.METHODS for s in demo.SEEDS]
    assert swept == here


def test_every_method_of_the_list_is_there_and_spelt_as_it_is_written() -> None:
    """The list is the one place to add a method to."""
    assert demo.METHODS[:2] == ("fedavg", "centralized")
    assert len(set(map(str, map(Method.parse, demo.METHODS)))) == len(demo.METHODS)


def test_it_runs_in_processes_of_their_own(tmp_path: Path) -> None:
    """The real sweep, once: two runs of one round."""
    failed = demo.train(tmp_path / "demo", ["fedavg"], [0, 1], dict(demo.SETTINGS) | {"rounds": 1})
    assert failed == []
    ended = [read_folder(path)[0] for path in (tmp_path / "demo").iterdir() if path.is_dir()]
    assert [folder.result["status"] for folder in ended] == ["done", "done"]

"""The runs of a sweep: forks of one warm process, each with its share of the cores, each dying alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from unskew.cli import main
from unskew.cli.sweep import Teller
from unskew.runs.fork_server import FORKS, Cold
from unskew.runs.running import run
from unskew.runs.spec import Spec
from unskew.runs.sweep import Cell, allowed, seconds_left, sweep

SWEEP = sys.modules["unskew.runs.sweep"]  # ``unskew.sweep`` is the function
TINY: dict[str, Any] = {
    "clients": 6,
    "cohort": 2,
    "rounds": 2,
    "model": "linear",
    "partition": "iid",
    "engine": "loop",
}

PART = '''
import os, signal
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from unskew.parts.select import Uniform

@dataclass(frozen=True)
class Telling(Uniform):
    """Tells where it runs, and may do away with its own process, or with the one that it was forked from."""

    name: ClassVar[str] = "telling"
    kills: str = "nobody"

    def check(self, federation, cohort):
        with open("told", "a") as file:
            file.write(f"{os.getpid()} {os.getppid()} {os.environ['UNSKEW_CORES']}\\n")
        if self.kills == "itself":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kills == "parent" and not Path("killed").exists():
            Path("killed").touch()
            os.kill(os.getppid(), signal.SIGKILL)
            signal.pause()
'''

needs_fork = pytest.mark.skipif(not FORKS, reason="elsewhere every run is a process of its own")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to run in, with a part of one's own in it, and four cores."""
    (tmp_path / "own_part.py").write_text(PART)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(SWEEP, "cores", lambda: 4)
    return tmp_path


def told(folder: Path) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in (folder / "told").read_text().splitlines()]


@needs_fork
def test_runs_share_a_warm_process_and_the_cores_and_die_alone(here: Path) -> None:
    """Two at a time on four cores: one parent for all, a process each, two cores each while there are two.

    One is killed outright, which is reported; the others end as if nothing had been.
    """
    grid = {"method": ["own_part:Telling", "own_part:Telling(kills=itself)", "own_part:Telling(kills=noone)"]}
    done = sweep(grid, here / "out", processes=2, **TINY)
    killed = "ended by signal 9 (most likely of too little memory; try fewer at a time)"
    assert [(cell.status, cell.error, cell.played) for cell in done] == [
        ("done", "", 2),
        ("failed", killed, 0),
        ("done", "", 2),
    ]
    processes, parents, shares = zip(*told(here), strict=True)
    assert len(set(processes)) == 3
    assert len(set(parents)) == 1
    assert parents[0] != os.getpid()
    assert shares[:2] == (2, 2)
    assert shares[2] in (2, 4)


@needs_fork
@pytest.mark.usefixtures("quick_sweeps")
def test_runs_go_on_where_the_warm_process_dies(here: Path) -> None:
    """It is started again, and what ran in it goes on."""
    done = sweep({"seed": [0]}, here / "out", method="own_part:Telling(kills=parent)", **TINY)
    assert [(cell.status, cell.error) for cell in done] == [("done", "")]
    assert len({parent for _, parent, _ in told(here)}) == 2


def test_where_there_is_no_fork_every_run_is_a_process(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SWEEP, "stable", Cold)
    done = sweep(
        {"clients": [6, 1]}, here / "out", processes=2, **{k: v for k, v in TINY.items() if k != "clients"}
    )
    assert [cell.status for cell in done] == ["done", "failed"]
    assert done[1].error == "error: the cohort of 2 is larger than the 1 clients; write cohort = 1 or less"


def test_more_at_a_time_than_cores_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no more processes than there are cores; without a word it is two, or one on one core."""
    monkeypatch.setattr(SWEEP, "cores", lambda: 4)
    assert (allowed(None), allowed(3), allowed(4)) == (2, 3, 4)
    with pytest.warns(UserWarning, match="1,000,000 runs at a time are more than the 4 cores here"):
        assert allowed(1_000_000) == 4
    monkeypatch.setattr(SWEEP, "cores", lambda: 1)
    assert allowed(None) == 1


def cell(method: str, status: str, known: int, played: int, seconds: float) -> Cell:
    return Cell(method, Spec(method=method, rounds=10), Path("x"), status, "", known, played, seconds)


def test_the_time_left_is_by_the_pace_of_the_same_method() -> None:
    """fedavg: 1 s a round; sem: 4 s. Left: 5 + 10 rounds of fedavg, 10 of sem, two at a time, no run halved."""
    todo = [
        cell("fedavg", "done", 0, 10, 10.0),
        cell("fedavg", "running", 2, 5, 3.0),
        cell("fedavg", "waiting", 0, 0, 0.0),
        cell("sem", "done", 5, 10, 20.0),
        cell("sem", "waiting", 0, 0, 0.0),
        cell("scaffold", "failed", 0, 3, 9.0),
    ]
    assert seconds_left(todo, 1) == pytest.approx(5 + 10 + 40)
    assert seconds_left(todo, 2) == pytest.approx(40)
    assert seconds_left([cell("fedavg", "waiting", 0, 0, 0.0)], 2) is None


def test_lines_tell_how_far_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    """A line when something has changed, not for every look."""
    teller = Teller(speaks=True)
    todo = [cell("fedavg", "running", 0, 0, 0.0), cell("fedavg", "waiting", 0, 0, 0.0)]
    teller(todo)
    teller(todo)
    todo[0].status, todo[0].played, todo[0].seconds, todo[1].status = "done", 10, 5.0, "running"
    teller(todo)
    assert capsys.readouterr().err.splitlines() == [
        "0 of 2 done, 1 running",
        "1 of 2 done, 1 running, about 5 s left",
    ]


def test_a_sweeps_folder_that_is_a_run_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also by a dry run; so is a file."""
    (here / "grid.toml").write_text('clients = 6\nrounds = 2\nmodel = "linear"\n[sweep]\nseed = [0]\n')
    assert main(["run", "grid.toml", "--out", "one", "--clients", "6"]) == 2  # it has a [sweep] table
    (here / "plain.toml").write_text(
        'clients = 6\nrounds = 2\nmodel = "linear"\npartition = "iid"\ncohort = 2\n'
    )
    assert main(["run", "plain.toml", "--out", "one", "--json"]) == 0
    (here / "file").touch()
    capsys.readouterr()
    for more in ([], ["--dry-run"]):
        assert main(["sweep", "grid.toml", "--out", "one", *more]) == 2
        assert capsys.readouterr().err.strip() == (
            "error: one is a run itself, and a sweep needs a folder for its runs; choose another, such as one-sweep"
        )
        assert main(["sweep", "grid.toml", "--out", "file", *more]) == 2
        assert "file is a file; name a folder for the sweep" in capsys.readouterr().err


@pytest.mark.usefixtures("quick_sweeps")
def test_cells_that_were_stopped_take_what_cannot_change_a_number(here: Path) -> None:
    """Another number of workers or another checkpoint is no other run."""
    run(out=here / "out" / "seed=0", seed=0, progress=False, **TINY)
    before = (here / "out" / "seed=0" / "rounds.jsonl").read_text().splitlines()
    (here / "out" / "seed=0" / "result.json").write_text("{}")
    done = sweep({"seed": [0]}, here / "out", **TINY | {"workers": 1, "checkpoint": 0.0})
    assert [cell.status for cell in done] == ["done"]
    assert (here / "out" / "seed=0" / "rounds.jsonl").read_text().splitlines() == before
    assert '"workers": 1' in (here / "out" / "seed=0" / "spec.json").read_text()

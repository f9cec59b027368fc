"""Many runs: a grid, several processes, what is done skipped, a failure on its own."""

from __future__ import annotations

import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from unskew.cli import main
from unskew.errors import InputError
from unskew.run import run
from unskew.spec import Spec
from unskew.sweep import Cell, cells, sweep

TINY: dict[str, Any] = {"clients": 6, "rounds": 2, "model": "linear", "partition": "iid", "engine": "loop"}
FILE = 'clients = 6\nrounds = 2\nmodel = "linear"\npartition = "iid"\nengine = "loop"\n\n[sweep]\n'
GRID = 'seed = "0-1"\ncohort = [2, 50]\n'


@dataclass
class Swept:
    """What a sweep on the command line left: where, its exit code, what it said."""

    out: Path
    code: int
    told: dict[str, Any]

    @property
    def done(self) -> list[Cell]:
        made = cells(TINY, {"seed": "0-1", "cohort": [2]}, self.out)
        assert [cell.name for cell in made] == ["seed=0,cohort=2", "seed=1,cohort=2"]
        return made


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Two seeds times two cohorts, of which one is larger than the federation, two processes at a time."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "grid.toml").write_text(FILE + GRID)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(["sweep", str(folder / "grid.toml"), "--out", str(folder / "out"), "-j", "2", "--json"])
    return Swept(folder / "out", code, json.loads(said.getvalue()))


def test_a_failed_cell_does_not_stop_the_rest(swept: Swept) -> None:
    """Two cells are done, two failed each with its sentence, and the exit code is 1."""
    assert swept.code == 1
    assert swept.told["folder"] == str(swept.out)
    assert [(row["cell"], row["status"]) for row in swept.told["cells"]] == [
        ("seed=0,cohort=2", "done"),
        ("seed=0,cohort=50", "failed"),
        ("seed=1,cohort=2", "done"),
        ("seed=1,cohort=50", "failed"),
    ]
    for row in swept.told["cells"]:
        good = row["status"] == "done"
        assert (row["final"] is not None, row["best"] is not None, not row["error"]) == (good, good, good)
        assert good or row["error"] == (
            "error: the cohort of 50 is larger than the 6 clients; write cohort = 6 or less"
        )
        assert Path(row["folder"]).exists() == good


def test_two_processes_give_the_bits_of_one(swept: Swept) -> None:
    """The same cells run here, one after the other, end in the same models and the same logs."""
    for cell in swept.done:
        here = run(cell.spec, progress=False)
        assert cell.result["model_sha256"] == here.result["model_sha256"]
        logged = [json.loads(text) for text in (cell.folder / "rounds.jsonl").read_text().splitlines()]
        for one, other in zip(logged, here.folder.lines, strict=True):
            assert one | {"wall_s": 0} == other | {"wall_s": 0}


def test_what_is_done_is_skipped(swept: Swept, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for again, finished folders are not touched; the table is made from them, and the code is 0."""
    before = {p: p.stat().st_mtime_ns for p in swept.out.rglob("*")}
    (tmp_path / "grid.toml").write_text(FILE + 'seed = "0-1"\ncohort = [2]\n')
    assert main(["sweep", str(tmp_path / "grid.toml"), "--out", str(swept.out)]) == 0
    said = capsys.readouterr().out
    assert "seed=0,cohort=2  done" in said
    assert f"unskew report {swept.out}" in said
    assert {p: p.stat().st_mtime_ns for p in swept.out.rglob("*")} == before


def test_changed_settings_are_refused(swept: Swept) -> None:
    """A folder that was run with other settings is not what was asked for, and nothing is started."""
    with pytest.raises(InputError) as problem:
        sweep({"seed": [0, 7], "cohort": [2]}, swept.out, **(TINY | {"rounds": 3}))
    assert str(problem.value) == (
        f"{swept.out}/seed=0,cohort=2 was run with rounds = 2, not 3; choose another --out"
    )
    assert not (swept.out / "seed=7,cohort=2").exists()


def test_a_dry_run_lists_the_cells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "grid.toml").write_text(FILE + GRID)
    words = ["sweep", str(tmp_path / "grid.toml"), "--dry-run", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    names = ["seed=0,cohort=2", "seed=0,cohort=50", "seed=1,cohort=2", "seed=1,cohort=50"]
    assert capsys.readouterr().out.split() == names
    assert main([*words, "--seed", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"] == ["cohort=2", "cohort=50"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({}, 'there is nothing to sweep; give values, e.g. [sweep] with seed = "0-4"'),
        ({"seed": [1, 1]}, "the cells seed=1 and seed=1 are the same; sweep each value once"),
        ({"lr": [0.1, -1]}, "cell lr=-1: lr must be above 0, not -1.0"),
        (
            {"seed": 3},
            '[sweep] seed: a swept setting needs a list of values, or a range like "0-4" for whole numbers',
        ),
    ],
)
def test_a_bad_grid_is_refused_before_anything_runs(
    grid: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as problem:
        cells(TINY, grid, tmp_path)
    assert str(problem.value) == sentence


def test_the_number_of_processes_must_be_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="processes must be at least 1, not 0"):
        sweep({"seed": [0]}, tmp_path, processes=0, **TINY)


def test_cells_are_specs_with_folders_named_by_their_values(tmp_path: Path) -> None:
    made = cells(TINY, {"method": ["fedavg", "fedavg(uniform=true)"], "target": [[0.5, 0.9]]}, tmp_path)
    assert [cell.folder.name for cell in made] == [
        "method=fedavg,target=(0.5,_0.9)",
        "method=fedavg(uniform=true),target=(0.5,_0.9)",
    ]
    assert made[1].spec == Spec(**TINY, method="fedavg(uniform=true)", target=(0.5, 0.9))

"""Many runs: a grid, several processes, what is done skipped, a failure on its own."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import unskew
from unskew.cli import main
from unskew.errors import InputError
from unskew.runs.checks import check_words
from unskew.runs.folder import UNSEALED
from unskew.runs.running import run
from unskew.runs.spec import Spec
from unskew.runs.sweep import Cell, cells, choices, folder_name, sweep, table
from unskew.sealed import unseal

pytestmark = pytest.mark.usefixtures("quick_sweeps")

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
def swept(quick_sweeps: None, tmp_path_factory: pytest.TempPathFactory) -> Swept:
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
        logged = [
            unseal(text, required=True) or {}
            for text in (cell.folder / "rounds.jsonl").read_text().splitlines()
        ]
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
    words = [
        "sweep",
        str(tmp_path / "grid.toml"),
        "--dry-run",
        "--out",
        str(tmp_path / "out"),
        "--cohort",
        "3",
    ]
    assert main(words) == 0
    assert capsys.readouterr() == ("seed=0\nseed=1\n", "")
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "cells": ["seed=0", "seed=1"],
        "folder": str(tmp_path / "out"),
        "status": {"seed=0": "waiting", "seed=1": "waiting"},
        "errors": {},
    }
    assert not (tmp_path / "out").exists()


def test_a_dry_run_finds_what_the_sweep_would(
    swept: Swept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same cells fail with the same sentences and the same exit code, and nothing is written."""
    (tmp_path / "grid.toml").write_text(FILE + GRID)
    before = {p: p.stat().st_mtime_ns for p in swept.out.rglob("*")}
    assert (
        main(["sweep", str(tmp_path / "grid.toml"), "--dry-run", "--out", str(swept.out), "--json"])
        == swept.code
    )
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == {row["cell"]: row["status"] for row in swept.told["cells"]}
    assert said["errors"] == {
        row["cell"]: row["error"].removeprefix("error: ")
        for row in swept.told["cells"]
        if row["status"] == "failed"
    }
    assert {p: p.stat().st_mtime_ns for p in swept.out.rglob("*")} == before


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ('dataset = ["own.csv(label=kind)", "own.csv(label=sort)"]', "sort"),
        ('partition = ["iid", "by(site)"]', "site"),
        ('method = ["fedavg", "phase_shift(9)"]', "phase_shift(9) needs a client in each of its 9 phases"),
        ('model = ["linear", "mcmahan_cnn"]', "mcmahan_cnn"),
        ("seed = [0, 1]\n", "seed=1 is not empty and holds no run"),
    ],
)
def test_a_dry_run_reads_the_data_and_asks_the_parts(
    grid: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Columns, clients, shapes, folders: what cannot run is told of the cell that has it, and of that alone."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{i},{i % 7},{'ab'[i % 2]}" for i in range(60)]
    (tmp_path / "own.csv").write_text("\n".join(["x,z,kind", *rows]) + "\n")
    dataset = "" if "dataset" in grid else 'dataset = "own.csv(label=kind)"\n'
    fixed = "".join(line + "\n" for line in FILE.splitlines() if line.split(" ")[0] not in grid)
    (tmp_path / "grid.toml").write_text(
        dataset + fixed.replace("[sweep]", "cohort = 2\n[sweep]") + grid + "\n"
    )
    (tmp_path / "out" / "seed=1").mkdir(parents=True)
    (tmp_path / "out" / "seed=1" / "notes.txt").touch()
    assert main(["sweep", "grid.toml", "--dry-run", "--out", "out", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert list(told["status"].values()) == ["waiting", "failed"]
    assert sentence in next(iter(told["errors"].values()))


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ({}, 'there is nothing to sweep; give values, e.g. [sweep] with seed = "0-4"'),
        ({"seed": [1, 1]}, "the cells seed=1 and seed=1 are the same; sweep each value once"),
        ({"lr": [1, 1.0]}, "the cells lr=1 and lr=1.0 are the same; sweep each value once"),
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


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"method": "fedavgg"}, "there is no method or part 'fedavgg'"),
        ({"device": "cuda:9", "engine": "fast"}, "device 'cuda:9' is not on this machine"),
        ({"precision": "bf16", "device": "cpu", "engine": "fast"}, "precision bf16 needs a GPU"),
        ({"model": "liner"}, "there is no model 'liner'"),
        ({"partition": "idd"}, "there is no partition 'idd'"),
        ({"dataset": "digitz"}, "there is no data set 'digitz'"),
        ({"dataset": "nowhere/at/all.npz"}, "there is no file or folder nowhere/at/all.npz"),
        ({"decay": "liner"}, "there is no learning-rate decay 'liner'"),
        ({"measure": ("gama",)}, "there is no measurement 'gama'"),
    ],
)
def test_what_no_cell_could_do_is_refused_before_anything_runs(
    settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    """The sentence names the first cell that has it, and nothing is written."""
    with pytest.raises(InputError) as problem:
        sweep({"seed": [0, 1]}, tmp_path / "out", **(TINY | settings))
    assert str(problem.value).startswith(f"cell seed=0: {sentence}")
    assert not (tmp_path / "out").exists()


def test_the_command_refuses_it_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word that is wrong in one cell of many is found before the first starts."""
    (tmp_path / "grid.toml").write_text(FILE + 'method = ["fedavg", "fedproxx"]\n')
    assert main(["sweep", str(tmp_path / "grid.toml"), "--out", str(tmp_path / "out")]) == 2
    assert "error: cell method=fedproxx: there is no" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_target_emd_needs_no_parameters(tmp_path: Path) -> None:
    """What finds its own parameters is not refused for lacking them."""
    check_words(Spec(**TINY | {"partition": "dirichlet", "emd": 1.2}))


def test_one_damaged_cell_does_not_stop_the_rest(swept: Swept, tmp_path: Path) -> None:
    """A result that is none is made again; a spec that is none is that cell's failure alone."""
    shutil.copytree(swept.out, tmp_path / "out")
    first, second = cells(TINY, {"seed": "0-1", "cohort": [2]}, tmp_path / "out")
    sha = first.result["model_sha256"]
    for content in ("", "[]", "null"):
        (first.folder / "result.json").write_text(content)
        ended = sweep({"seed": [0, 1], "cohort": [2]}, tmp_path / "out", **TINY)
        assert [cell.status for cell in ended] == ["done", "done"]
        assert ended[0].result["model_sha256"] == sha
    (second.folder / "spec.json").write_text("")
    rows = table(sweep({"seed": [0, 1], "cohort": [2]}, tmp_path / "out", **TINY))
    assert [(row["status"], row["error"]) for row in rows] == [
        ("done", ""),
        ("failed", f"error: {second.folder / 'spec.json'} is damaged: it is not the JSON of a run"),
    ]


def test_the_folder_of_a_long_name_ends_in_a_hash(tmp_path: Path) -> None:
    """Names as long as a file system takes are as they were; longer ones differ where their cells do."""
    plain = folder_name("method=" + "a" * 248)
    assert plain == "method=" + "a" * 248
    parts = "+".join(["fedprox(mu=0.1)"] * 20)
    made = cells(TINY, {"dataset": [f"{parts}1", f"{parts}2"]}, tmp_path)
    names = [cell.folder.name for cell in made]
    assert len(set(names)) == 2
    for name in names:
        assert len(name) == 255
        assert name.startswith("dataset=fedprox(mu=0.1)+fedprox")
        (tmp_path / name).mkdir()


class Heard:
    """Notes what it is told of a cell, and asks for the end of the first."""

    told: list[tuple[Any, ...]]

    def __init__(self, cell: Cell, told: list[tuple[Any, ...]]):
        self.cell, self.told = cell, told

    def started(self, start: Any) -> None:
        self.told.append((self.cell.name, "started", start.spec.seed, start.played, start.folder.name))

    def round_ended(self, round: Any) -> None:
        self.told.append((self.cell.name, "round", round.round, round.of))
        if self.cell.spec.seed == 0:
            round.stop("heard enough")

    def ended(self, end: Any) -> None:
        self.told.append((self.cell.name, "ended", end.status, end.error))


def test_each_cell_has_watchers_that_hear_of_it_and_may_stop_it(tmp_path: Path) -> None:
    """Two runs at a time: each is told in order; one is asked to end, long before it would."""
    told: list[tuple[Any, ...]] = []
    settings = TINY | {"rounds": 400, "evaluate": 400}
    done = sweep({"seed": [0]}, tmp_path, watch=lambda cell: Heard(cell, told), **settings)
    assert told[0] == ("seed=0", "started", 0, 0, "seed=0")
    assert told[-1] == ("seed=0", "ended", "done", "")
    rounds = [one[2] for one in told if one[1] == "round"]
    assert rounds == [*range(1, len(rounds) + 1)]
    stopped = done[0].result["stopped"]
    assert (stopped["reason"], stopped["by"]) == ("heard enough", "Heard")
    assert len(rounds) == stopped["round"] < 400


def test_a_cell_that_fails_tells_its_watcher_why_and_one_that_is_done_tells_nothing(tmp_path: Path) -> None:
    """And what was played before is told as such."""
    told: list[tuple[Any, ...]] = []
    grid = {"seed": [1], "cohort": [2, 50]}
    for _ in range(2):
        sweep(grid, tmp_path, watch=lambda cell: [Heard(cell, told)], **TINY)
    first, again = told[:-1], told[-1]
    assert {one[:3] for one in first if one[1] == "ended"} == {
        ("seed=1,cohort=2", "ended", "done"),
        ("seed=1,cohort=50", "ended", "failed"),
    }
    assert again[:3] == ("seed=1,cohort=50", "ended", "failed")
    assert "the cohort of 50 is larger than the 6 clients" in again[3]
    assert ("seed=1,cohort=2", "round", 2, 2) in first


def test_a_watcher_of_a_cell_is_told_where_models_are_and_finds_them_there(tmp_path: Path) -> None:
    """The sentence named an argument that ``load_run`` does not have."""
    said: list[str] = []

    class Asks:
        def round_ended(self, round: Any) -> None:
            with pytest.raises(InputError) as refusal:
                round.model()
            said.append(str(refusal.value))

    done = sweep({"seed": [0]}, tmp_path, watch=lambda cell: Asks(), keep=(1,), **TINY)
    assert len(said) == 2
    assert said[0].endswith("write keep = 3, and load it with unskew.load_run(cell.folder).model_of(3)")
    assert unskew.load_run(done[0].folder).model_of(1) is not None


def test_a_watcher_that_is_no_function_of_a_cell_is_refused(tmp_path: Path) -> None:
    """One object could not tell two runs apart."""
    with pytest.raises(InputError, match="watch of a sweep is a function that gives a cell its watchers"):
        sweep({"seed": [0]}, tmp_path, watch=Heard.__new__(Heard), **TINY)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="cannot watch a run: it has none of the methods"):
        sweep({"seed": [0]}, tmp_path, watch=lambda cell: object(), **TINY)
    with pytest.raises(
        InputError, match=r"failed for the cell seed=0 \(ZeroDivisionError: division by zero\)"
    ):
        sweep({"seed": [0]}, tmp_path, watch=lambda cell: 1 / 0, **TINY)  # type: ignore[arg-type,return-value]


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


def test_a_sweep_says_which_settings_it_chooses_and_on_what(tmp_path: Path) -> None:
    """The mean over seeds of the best rounds' validation accuracy; a setting with a failed seed is not chosen."""
    grid = {"lr": [0.1, 0.2, 0.3], "seed": [0, 1]}
    found = cells({"validation": 0.1}, grid, tmp_path)
    scores = {0.1: (0.9, 0.5), 0.2: (0.8, 0.7), 0.3: (0.99, 0.99)}
    for cell in found:
        test, chosen = scores[cell.spec.lr]
        cell.status = "failed" if (cell.spec.lr, cell.spec.seed) == (0.3, 1) else "done"
        cell.folder.mkdir(parents=True)
        about = {"format": UNSEALED, "spec": cell.spec.as_dict(), "data": {}}
        (cell.folder / "spec.json").write_text(json.dumps(about))
        best = {"accuracy": test, "validation_accuracy": chosen, "round": 1, "chosen_on": "validation"}
        (cell.folder / "result.json").write_text(json.dumps({"status": "done", "best": best}))
    (choice,) = choices(found, grid)
    assert (choice.settings, choice.on, choice.value, choice.test) == ("lr=0.2", "validation", 0.7, 0.8)
    assert choices([cell for cell in found if cell.spec.lr == 0.1], {"seed": [0, 1]}) == []


def test_a_grid_in_python_may_be_any_list(tmp_path: Path) -> None:
    """A tuple or a range is as good as a list."""
    names = ["seed=0", "seed=1", "seed=2"]
    for seeds in (range(3), (0, 1, 2), "0-2"):
        assert [cell.name for cell in cells(TINY, {"seed": seeds}, tmp_path)] == names


class Counted(type(Path())):  # type: ignore[misc]
    """A path that counts how often it is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = Path.__hash__


def test_a_large_grid_is_not_compared_cell_by_cell(tmp_path: Path) -> None:
    """Twenty thousand cells took three minutes before the first began."""
    assert len(cells(TINY, {"seed": "0-999"}, Counted(tmp_path))) == 1000
    assert Counted.compared < 2000


@pytest.mark.parametrize(
    ("grid", "out", "options", "sentence"),
    [
        (None, "out", {}, 'a grid is a dictionary of settings, such as {"seed": "0-4"}, not None'),
        ({"seed": [0]}, None, {}, "out is a folder's path, not None"),
        ({"seed": [0]}, "", {}, "out is a folder's path, not ''"),
        ({"seed": [0]}, "out", {"on": "slurm"}, 'on is "here" or "ray", not \'slurm\''),
        ({"seed": [0]}, "out", {"processes": "two"}, "processes must be a whole number, not two"),
    ],
)
def test_what_a_sweep_in_python_takes(grid: Any, out: Any, options: Any, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        sweep(grid, out, **options)
    assert str(problem.value) == sentence

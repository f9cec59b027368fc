"""``unskew run``, ``resume`` and ``methods``: what they print, what they refuse and how."""

from __future__ import annotations

import errno
import json
import os
import re
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unskew.cli import main
from unskew.parts import PARTS, PRESETS
from unskew.sealed import unseal

SMALL = ["--clients", "8", "--cohort", "2", "--rounds", "2", "--model", "linear", "--engine", "loop"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every command runs in an empty folder, so that what it writes can be seen."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    """What a command printed to either side, having ended with this code."""
    found = main(list(words))
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def one_object(out: str) -> dict[str, Any]:
    """Exactly one JSON object, valid for any reader."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    found = json.loads(out, parse_constant=refuse)
    assert isinstance(found, dict)
    return found


# --- what they print


def test_a_run_prints_one_json_object_and_leaves_a_folder(
    elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = said(capsys, "run", *SMALL, "--out", "first", "--json")
    told = one_object(out)
    assert err == ""
    assert told["folder"] == "first"
    assert {"status", "best", "final", "totals", "skew", "discloses", "model_sha256"} <= set(told)
    lines = [json.loads(text) for text in (elsewhere / "first" / "rounds.jsonl").read_text().splitlines()]
    wanted = "round global_test_accuracy global_test_loss bytes_down bytes_up bytes_peer sample_steps asked answered"
    for line in lines:
        assert {*wanted.split(), "wall_s"} <= set(line)
    assert [line["round"] for line in lines] == [1, 2]
    assert unseal((elsewhere / "first" / "result.json").read_text(), required=True) == {
        k: v for k, v in told.items() if k != "folder"
    }
    assert (elsewhere / "first" / "partition.npz").exists()

    again, _ = said(capsys, "resume", "first", "--json")
    assert one_object(again) == told


def test_a_run_for_people(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A table on stdout, progress on stderr, and what to do next; the folder is named for the settings."""
    out, err = said(capsys, "run", *SMALL, "--drop", "0.5", "--target", "0.01", "--target", "1")
    assert "global test accuracy after round 2" in out
    assert "of 4 asked" in out
    assert "reaches 0.01" in out
    assert "never" in out
    assert "model updates only" in out
    assert "next: unskew report runs/digits-fedavg-dirichlet_0.1_-s0" in out
    assert "fedavg: round 2/2, accuracy" in err
    said(capsys, "run", *SMALL)
    folders = sorted(p.name for p in (elsewhere / "runs").iterdir())
    assert folders == ["digits-fedavg-dirichlet_0.1_-s0", "digits-fedavg-dirichlet_0.1_-s0-2"]


def test_a_folder_of_any_name_is_named_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are no markup, and the command that comes next can be pasted."""
    out, _ = said(capsys, "run", *SMALL, "--out", "dose [mg] ü")
    assert out.splitlines()[-1] == "dose [mg] ü   next: unskew report 'dose [mg] ü'"


def test_help_of_sweep_names_its_table(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "sweep", "--help")
    assert "[sweep] table" in out


def test_flags_overrule_the_file(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run prints the effective settings, defaults too, and runs nothing."""
    (elsewhere / "e.toml").write_text('rounds = 7\nepochs = 2\nmethod = "centralized"\ntarget = [0.5]\n')
    out, _ = said(capsys, "run", "e.toml", "--dry-run", "--rounds", "3", "--steps", "4")
    assert "rounds = 3\n" in out
    assert "steps = 4\n" in out
    assert "epochs" not in out
    assert 'method = "centralized"\n' in out
    assert "target = [0.5]\n" in out
    assert "batch = 32\n" in out
    shown, _ = said(capsys, "run", "e.toml", "--dry-run", "--json", "--no-nesterov")
    assert one_object(shown)["rounds"] == 7
    assert [p.name for p in elsewhere.iterdir()] == ["e.toml"]
    (elsewhere / "again.toml").write_text(out)
    again, _ = said(capsys, "run", "again.toml", "--dry-run")
    assert again == out


def test_a_command_that_fails_at_random_is_one_sentence_and_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No traceback without --debug."""

    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("the sky fell")

    monkeypatch.setattr("unskew.runs.rounds.play_round", broken)
    out, err = said(capsys, "run", *SMALL, "--out", "run", "--json", code=1)
    assert out == ""
    where = r"\(\S*test_run\.py, line \d+; add --debug for the traceback\)"
    assert re.fullmatch(f"error: RuntimeError: the sky fell {where}", err.strip())
    assert json.loads(Path("run/result.json").read_text())["status"] == "failed"
    with pytest.raises(RuntimeError, match="the sky fell"):
        main(["--debug", "run", *SMALL, "--out", "other"])


def test_one_client_is_one_and_few_bytes_are_not_none(capsys: pytest.CaptureFixture[str]) -> None:
    one = ["--clients", "1", "--cohort", "1", "--rounds", "1", "--model", "linear", "--evaluate-clients"]
    out, _ = said(capsys, "run", *one, "--client-test", "0.2", "--out", "run")
    assert re.search(r"sparsity 0\.00, 1 client\n", re.sub(" +\n", "\n", out))
    assert "on one client's own samples" in " ".join(out.split())
    assert re.search(r"cost +5\.20 kB moved", out)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_error_in_code_of_ones_own_says_where(
    workers: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of the user's file, also out of a worker process, whose whole traceback --debug then shows."""
    own = f"sad_{workers}"
    Path(f"{own}.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from unskew.parts import Objective\n"
        "@dataclass(frozen=True)\n"
        "class Sad(Objective):\n"
        '    """Fails."""\n'
        f'    name: ClassVar[str] = "{own}"\n'
        '    paper: ClassVar[str] = "nobody\'s"\n'
        "    def penalty(self, step):\n"
        '        raise KeyError("joy")\n'
    )
    monkeypatch.syspath_prepend(Path.cwd())
    words = ["run", *SMALL[:-1], "fast", "--method", f"{own}:Sad", "--workers", workers]
    _, err = said(capsys, *words, "--out", "run", code=1)
    assert err.strip().endswith(f"error: KeyError: 'joy' ({own}.py, line 10; add --debug for the traceback)")
    with pytest.raises(KeyError) as problem:
        main(["--debug", *words, "--out", "other"])
    whole = "".join(traceback.format_exception(problem.value))
    assert f'{own}.py", line 10, in penalty' in whole


def test_an_error_that_cannot_travel_is_told_by_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a class that pickle cannot make again; it is no death of a worker and no TypeError."""
    Path("odd.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from unskew.parts import Objective\n"
        "class Odd(Exception):\n"
        "    def __init__(self, a, b):\n"
        "        super().__init__(f'{a} and {b}')\n"
        "@dataclass(frozen=True)\n"
        "class Part(Objective):\n"
        '    """Fails."""\n'
        '    name: ClassVar[str] = "odd"\n'
        '    paper: ClassVar[str] = "nobody\'s"\n'
        "    def penalty(self, step):\n"
        "        raise Odd(1, 2)\n"
    )
    monkeypatch.syspath_prepend(Path.cwd())
    words = ["run", *SMALL[:-1], "fast", "--method", "odd:Part", "--workers", "2", "--out", "run"]
    _, err = said(capsys, *words, code=1)
    where = "(odd.py, line 13; add --debug for the traceback)"
    assert err.strip().endswith(f"error: RuntimeError: Odd: 1 and 2 {where}")


def test_methods_lists_every_part_and_preset(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "methods")
    for name in (*PARTS, *PRESETS):
        assert name in out
    told = one_object(said(capsys, "methods", "--json")[0])
    assert set(told["parts"]) == set(PARTS)
    assert set(told["presets"]) == set(PRESETS)


@pytest.mark.parametrize("name", [*PARTS, *PRESETS])
def test_methods_tells_all_about_one(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Slot, text, paper, parameters and what it discloses; the same as JSON."""
    told = one_object(said(capsys, "methods", name, "--json")[0])
    out, _ = said(capsys, "methods", name)
    assert told["write"].split("(")[0] == name
    assert "discloses" in out
    for parameter in told.get("parameters", {}):
        assert parameter in out


def test_the_pooled_part_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "methods", "pooled")
    assert out.startswith("pooled  prepare\n")
    assert "discloses  raw samples to the server\n" in out
    assert "paper      SEM, section IV (SingleSet)\n" in out


# --- what they refuse


@pytest.fixture
def files(elsewhere: Path) -> Path:
    """Experiments with a mistake each, a table without a subject, a folder that is no run."""
    (elsewhere / "field.toml").write_text('method = "fedavg"\n\nroundz = 3\n')
    (elsewhere / "type.toml").write_text('clients = 4\nrounds = "ten"\n')
    (elsewhere / "both.toml").write_text("clients = 4\nepochs = 1\nsteps = 5\n")
    (elsewhere / "sweep.toml").write_text("[sweep]\nseed = [0, 1]\n")
    (elsewhere / "model.py").write_text(
        "from torch import nn\n\n\ndef seven() -> nn.Module:\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, 7))\n"
    )
    (elsewhere / "nothing").mkdir()
    return elsewhere


REFUSED = {
    "an unknown field": (
        "run field.toml",
        "field.toml, line 3: there is no setting 'roundz'; did you mean 'rounds'?",
    ),
    "a wrong type": ("run type.toml", "type.toml, line 2: rounds must be a whole number, not ten"),
    "a wrong type as a flag": ("run --rounds ten", "rounds must be a whole number, not ten"),
    "two budgets": (
        "run both.toml",
        "both.toml, line 2: epochs and steps both set the local budget; keep one",
    ),
    "two budgets as flags": (
        "run --epochs 1 --steps 5",
        "epochs and steps both set the local budget; keep one",
    ),
    "a model that does not fit": (
        "run --model model:seven",
        "the model model:seven gives 7 numbers a sample for samples of shape 1x8x8, but the data has 10 classes; make "
        "its last layer give 10 numbers a sample",
    ),
    "a cohort that is too large": (
        "run --clients 4 --cohort 9",
        "the cohort of 9 is larger than the 4 clients; write cohort = 4 or less",
    ),
    "an unknown method": (
        "run --method centralised",
        "there is no method or part 'centralised'; did you mean 'centralized' or 'central_sharing'?",
    ),
    "two that decide": ("run --method full+uniform", "full and uniform both decide 'select'; keep one"),
    "an unknown measure": ("run --measure gama", "there is no measurement 'gama'; did you mean 'gamma'?"),
    "an unknown decay": (
        "run --decay stepp(3)",
        "there is no learning-rate decay 'stepp'; did you mean 'step'?",
    ),
    "a share above 1": ("run --drop 1.5", "drop is a share of clients from 0 to 1, not 1.5"),
    "a target in percent": (
        "run --target 90",
        "target is an accuracy from 0 to 1, such as 0.9, not 90",
    ),
    "a folder below a file": (
        "run --clients 4 --cohort 2 --out field.toml/run",
        "no run can be written to field.toml/run (not a directory); choose another folder",
    ),
    "a sweep": ("run sweep.toml", "sweep.toml has a [sweep] table; run it with `unskew sweep sweep.toml`"),
    "a folder": (
        "run .",
        ". is a folder; name an experiment file, such as grid.toml, or write --dataset . to train on what is in it",
    ),
    "no file": ("run missing.toml", "there is no experiment file missing.toml"),
    "not a run": ("resume nothing", "nothing is not a run folder: it has no spec.json"),
    "no such folder": ("resume missing", "missing is not a run folder: it has no spec.json"),
    "an unknown part": (
        "methods poled",
        "there is no method or part 'poled'; did you mean 'pooled' or 'kld'?",
    ),
    "no such column": (
        "run --partition by(subject)",
        "by(subject) needs a data set with columns, and this one has none",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_sentence_and_code_2_and_nothing_is_written(
    case: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, sentence = REFUSED[case]
    before = sorted(p.relative_to(files) for p in files.rglob("*") if "__pycache__" not in p.parts)
    out, err = said(capsys, *words.split(), code=2)
    assert out == ""
    assert err == f"error: {sentence}\n"
    assert sorted(p.relative_to(files) for p in files.rglob("*") if "__pycache__" not in p.parts) == before


def test_a_folder_that_holds_a_run_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "run", *SMALL, "--out", "first", "--json")
    _, err = said(capsys, "run", *SMALL, "--out", "first", code=2)
    assert err == "error: first already holds a run (done); choose another folder\n"


def test_a_folder_of_an_older_version_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("old").mkdir()
    Path("old/spec.json").write_text(json.dumps({"format": 0, "unskew": "0.0.1", "spec": {}}))
    _, err = said(capsys, "resume", "old", code=2)
    assert err == "error: old has run format 0, this version reads 2; use the unskew that wrote it (0.0.1)\n"


def test_data_that_changed_are_refused_on_resume(capsys: pytest.CaptureFixture[str]) -> None:
    """The file is not what the run began with: one pixel of one sample."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 4)).astype(np.float32), np.arange(80) % 3
    np.savez("own.npz", x=x, y=y)
    said(capsys, "run", *SMALL, "--dataset", "own.npz", "--partition", "iid", "--out", "run", "--json")
    Path("run/result.json").unlink()
    x[-1, -1] += 1
    np.savez("own.npz", x=x, y=y)
    _, err = said(capsys, "resume", "run", code=2)
    assert err == "error: the data of run is not what the run began with; give it the same data\n"


def test_own_data_with_a_client_column_needs_no_number_of_clients(capsys: pytest.CaptureFixture[str]) -> None:
    """Three people in the file are three clients; a column that is not there is refused by name."""
    rng = np.random.default_rng(0)
    who = np.arange(90) % 3
    np.savez("own.npz", x=rng.normal(size=(90, 4)).astype(np.float32), y=np.arange(90) % 2, person=who)
    common = ["--dataset", "own.npz", "--cohort", "2", "--rounds", "1", "--model", "linear", "--json"]
    out, _ = said(capsys, "run", *common, "--partition", "by(person)", "--out", "people")
    assert one_object(out)["data"]["clients"] == 3
    _, err = said(capsys, "run", *common, "--partition", "by(subject)", code=2)
    assert "subject" in err
    assert "person" in err


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOENT, "the folder that this was called in is gone; go to another one"),
        (errno.EMFILE, "too many files are open; allow more (ulimit -n 4096), then do it again"),
        (errno.EFBIG, "a file may not grow any more here; allow larger ones (ulimit -f), then do it again"),
    ],
)
def test_what_the_system_says_without_a_place_is_told(
    number: int, sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any, **more: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("unskew.runs.rounds.play_round", fail)
    _, err = said(capsys, "run", *SMALL, "--json", code=2 if number == errno.ENOENT else 1)
    assert err == f"error: {sentence}\n"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_code_of_ones_own_that_exits_is_no_success(
    workers: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the command with code 0 and no word, and a worker was said to have had too little memory."""
    own = f"exits_{workers}"
    Path(f"{own}.py").write_text(
        "import sys\n"
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from unskew.parts import Objective\n"
        "@dataclass(frozen=True)\n"
        "class Exits(Objective):\n"
        '    """Ends the process."""\n'
        f'    name: ClassVar[str] = "{own}"\n'
        '    paper: ClassVar[str] = "nobody\'s"\n'
        "    def penalty(self, step):\n"
        "        sys.exit()\n"
    )
    monkeypatch.syspath_prepend(Path.cwd())
    words = ["run", *SMALL[:-1], "fast", "--method", f"{own}:Exits", "--workers", workers, "--json"]
    _, err = said(capsys, *words, code=1)
    assert err == f"error: sys.exit was called ({own}.py, line 11); raise an error there, or return\n"

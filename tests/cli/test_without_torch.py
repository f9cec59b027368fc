"""What only tells needs no torch, which takes seconds to load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import unskew
from unskew.cli import app
from unskew.parts import PARTS, PRESETS

ASK = """
import contextlib, io, sys
from unskew.cli import main
for words in {asked!r}:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        code = main(words)
    assert code == {code} and (said.getvalue() or code), words
    loaded = [name for name in {heavy!r} if name in sys.modules]
    assert not loaded, (words, loaded)
print("done")
"""


NAMED = {"flea": "flea(last)", "quantize": "quantize(8)", "topk": "topk(0.1)"}
"""Parts that need a value, with one."""

HOW = ("median", "most_frequent", "drop")
"""What may be done about gaps in a table."""

HEAVY = ("torch", "scipy", "sklearn", "pandas", "altair")
"""What takes a tenth of a second or more to load."""


def commands() -> list[str]:
    return [info.name or info.callback.__name__ for info in app.registered_commands]


def test_listings_and_help_do_not_load_torch():
    """Methods in every form, data sets, models, the version, and the help of every command."""
    asked = [["--help"], ["--version"], *([command, "--help"] for command in commands())]
    asked += [["methods"], ["methods", "--json"], ["datasets"], ["datasets", "mnist"], ["datasets", "--json"]]
    asked += [["methods", name] for name in ("fedavg", "flea", "daca", "ccvr", *PRESETS)]
    asked += [["methods", "daca", "--json"], ["models"], ["models", "--json"]]
    assert {"run", "methods", "diagnose", "report"} <= set(commands())
    _check_not_loaded(asked)


def test_rehearsals_and_partitions_load_nothing_heavy(tmp_path: Path) -> None:
    """All cells of a sweep and all settings of a run are checked by what parts declare and by drawings of models."""
    cells = "rounds = 1\nclients = 10\ncohort = 2\n[sweep]\n"
    methods = [*(name for name in PARTS if name not in NAMED), *NAMED.values(), "scaffold+sem", *PRESETS]
    (tmp_path / "methods.toml").write_text(f"{cells}method = {json.dumps(methods)}\n")
    (tmp_path / "models.toml").write_text(
        f'{cells}model = ["auto", "mlp(hidden=[20])", "linear"]\nseed = "0-1"\n'
    )
    asked = [["sweep", str(tmp_path / f"{name}.toml"), "--dry-run"] for name in ("methods", "models")]
    asked += [["run", "--dry-run"], ["run", "--dry-run", "--json", "--method", "fedprox(0.1)+sem"]]
    asked += [["partition", "--solve", "1.2", "--classes", "10", "--clients", "20"]]
    asked += [["partition", "digits", "dirichlet(0.1)", "--clients", "20"], ["diagnose", "digits"]]
    asked += [["run", "--dry-run", "--budget", "500MB"]]
    _check_not_loaded(asked)


def test_a_run_that_is_done_is_told_of_and_exported_with_nothing_heavy(tmp_path: Path) -> None:
    """The run says what came out, and its weights are copied."""
    run = str(tmp_path / "run")
    unskew.run(dataset="digits", clients=4, cohort=2, rounds=1, out=run, progress=False)
    weights = ["export", run, "-o", str(tmp_path / "model.safetensors")]
    _check_not_loaded([["resume", run], ["resume", run, "--json"], weights, [*weights, "--json"]])


def test_training_and_answers_to_arrays_load_torch_alone(tmp_path: Path) -> None:
    """pandas reads and writes tables, and there is none; torch's compiler and its library of algebra, half a second and
    more, are for what nobody asks here."""
    run, samples = str(tmp_path / "run"), tmp_path / "samples.npz"
    np.savez(samples, x=np.zeros((2, 1, 8, 8), np.uint8))
    asked = [
        ["run", "--dataset", "digits", "--clients", "8", "--cohort", "4", "--rounds", "1", "-o", run],
        ["predict", run, str(samples)],
        ["predict", run, str(samples), "-o", str(tmp_path / "answers.csv")],
    ]
    _check_not_loaded(asked, heavy=(*HEAVY[1:], "sympy", "torch._dynamo"))


def test_tables_are_read_by_pandas_alone(tmp_path: Path) -> None:
    """Words become inputs, and gaps are filled, without scikit-learn."""
    rows = [f"{at % 7}.5,{'abc'[at % 3] if at % 5 else ''},{'yn'[at % 2]}" for at in range(60)]
    (tmp_path / "table.csv").write_text("\n".join(["size,kind,label", *rows]))
    table = str(tmp_path / "table.csv")
    asked = [["partition", f"{table}(label=label, impute={how})", "iid", "--clients", "3"] for how in HOW]
    _check_not_loaded(asked, heavy=("torch", "scipy", "sklearn", "altair"))


def test_what_is_refused_is_refused_without_torch(tmp_path: Path) -> None:
    """A word that there is not, a folder that is none or taken: whoever mistypes need not wait."""
    run, none = str(tmp_path / "run"), str(tmp_path / "none")
    unskew.run(dataset="digits", clients=4, cohort=2, rounds=1, out=run, progress=False)
    asked = [["run", "--method", "fedprx"], ["run", "--dataset", "digts"], ["run", "--model", "mlpp"]]
    asked += [
        ["run", "-o", run],
        ["run", "--partition", "dirichle(1)"],
        ["run", "--dry-run", "--budget", "1kB"],
    ]
    asked += [["resume", none], ["resume", run, "--lr", "0.5"], ["resume", run, "--partition", "iid"]]
    asked += [["export", none, "-o", "model.pt2"], ["export", run, "-o", "model.doc"]]
    asked += [["predict", none, "x.npz"], ["predict", run, "nothing.npz"], ["attack", none]]
    _check_not_loaded(asked, code=2)


def _check_not_loaded(asked: list[list[str]], code: int = 0, heavy: tuple[str, ...] = HEAVY) -> None:
    """In a process of its own: this one has loaded torch already."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(asked=asked, heavy=heavy, code=code)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

"""What only tells needs no torch, which takes seconds to load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from unskew.cli import app
from unskew.parts import PARTS, PRESETS

ASK = """
import contextlib, io, sys
from unskew.cli import main
for words in {asked!r}:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        code = main(words)
    assert code == 0 and said.getvalue(), words
    loaded = [name for name in {heavy!r} if name in sys.modules]
    assert not loaded, (words, loaded)
print("done")
"""


NAMED = {"flea": "flea(last)", "quantize": "quantize(8)", "topk": "topk(0.1)"}
"""Parts that need a value, with one."""

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
    _refuse_heavy(asked)


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
    _refuse_heavy(asked)


def _refuse_heavy(asked: list[list[str]]) -> None:
    """In a process of its own: this one has loaded torch already."""
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(asked=asked, heavy=HEAVY)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

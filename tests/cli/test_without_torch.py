"""What only tells needs no torch, which takes seconds to load."""

from __future__ import annotations

import subprocess
import sys

from unskew.cli import app
from unskew.parts.presets import PRESETS

ASK = """
import contextlib, io, sys
from unskew.cli import main
for words in {asked!r}:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        code = main(words)
    assert code == 0 and said.getvalue(), words
    assert "torch" not in sys.modules, words
print("done")
"""


def commands() -> list[str]:
    return [info.name or info.callback.__name__ for info in app.registered_commands]


def test_listings_and_help_do_not_load_torch():
    """Methods in every form, data sets, models, the version, and the help of every command."""
    asked = [["--help"], ["--version"], *([command, "--help"] for command in commands())]
    asked += [["methods"], ["methods", "--json"], ["datasets"], ["datasets", "mnist"], ["datasets", "--json"]]
    asked += [["methods", name] for name in ("fedavg", "flea", "daca", "ccvr", *PRESETS)]
    asked += [["methods", "daca", "--json"], ["models"], ["models", "--json"]]
    assert {"run", "methods", "diagnose", "report"} <= set(commands())
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(asked=asked)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

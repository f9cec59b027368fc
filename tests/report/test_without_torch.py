"""A report tells what has been trained and trains nothing: torch, which takes a second to load, is left alone.

So are scipy and the tables of pandas; what draws charts is loaded where there are some.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HEAVY = ("torch", "scipy", "sklearn", "pandas")

WRITE = """
import contextlib, io, sys
from unskew.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main({words!r}) == 0
loaded = [name for name in {heavy!r} if name in sys.modules]
assert not loaded, loaded
print("done")
"""


@pytest.mark.parametrize("name", ["report.html", "report.svg", "report.csv", "report.tex"])
def test_a_report_of_runs_loads_nothing_heavy(
    name: str, six_runs: Path, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    """Methods with values, presets and sums are spelt, and what a run that was cut off discloses is told."""
    write_run("sweep/proximal", [0.5, 0.6, 0.7], method="fedprox(0.1)+sem", seed=0)
    write_run("sweep/bound", [0.5, 0.6, 0.9], method="centralized", seed=0)
    write_run("sweep/cut", [0.5, 0.6], method="scaffold+sem", rounds=3, status="running", seed=0)
    charts = () if name.endswith(("html", "svg")) else ("altair",)
    _check_not_loaded(["report", str(six_runs), "--baseline", "fedavg", "-o", str(tmp_path / name)], charts)
    assert (tmp_path / name).is_file()


def test_a_diagnosis_with_pictures_loads_nothing_heavy(tmp_path: Path) -> None:
    """What is advised is told by what parts declare."""
    place = tmp_path / "diagnosis.html"
    _check_not_loaded(
        ["diagnose", "digits", "--partition", "dirichlet(0.1)", "--clients", "20", "-o", str(place)]
    )
    assert place.is_file()


def _check_not_loaded(words: list[str], also: tuple[str, ...] = ()) -> None:
    """In a process of its own: this one has loaded torch already."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE.format(words=words, heavy=(*HEAVY, *also))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

"""A report tells what has been trained and trains nothing: torch, which takes a second to load, is left alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

WRITE = """
import contextlib, io, sys
from unskew.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    assert main({words!r}) == 0
assert "torch" not in sys.modules
print("done")
"""


@pytest.mark.parametrize("name", ["report.html", "report.svg", "report.csv", "report.tex"])
def test_a_report_of_runs_does_not_load_torch(
    name: str, six_runs: Path, write_run: Callable[..., Path], tmp_path: Path
) -> None:
    """Methods with values, presets and sums are spelt, and what a run that was cut off discloses is told."""
    write_run("sweep/proximal", [0.5, 0.6, 0.7], method="fedprox(0.1)+sem", seed=0)
    write_run("sweep/bound", [0.5, 0.6, 0.9], method="centralized", seed=0)
    write_run("sweep/cut", [0.5, 0.6], method="scaffold+sem", rounds=3, status="running", seed=0)
    _refuse_torch(["report", str(six_runs), "--baseline", "fedavg", "-o", str(tmp_path / name)])
    assert (tmp_path / name).is_file()


def test_a_diagnosis_with_pictures_does_not_load_torch(tmp_path: Path) -> None:
    """What is advised is told by what parts declare."""
    place = tmp_path / "diagnosis.html"
    _refuse_torch(
        ["diagnose", "digits", "--partition", "dirichlet(0.1)", "--clients", "20", "-o", str(place)]
    )
    assert place.is_file()


def _refuse_torch(words: list[str]) -> None:
    """In a process of its own: this one has loaded torch already."""
    done = subprocess.run(
        [sys.executable, "-c", WRITE.format(words=words)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr

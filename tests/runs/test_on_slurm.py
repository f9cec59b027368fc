"""A sweep as one array job of SLURM; ``sbatch`` is a stand-in that runs the script for every number of the array."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from unskew.errors import InputError
from unskew.runs.on_slurm import slurm_script, submit
from unskew.runs.sweep import plan_cells

STAND_IN = """#!/bin/bash
last=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\).*/\\1/p' "$1")
export SLURM_CPUS_PER_TASK=1
for number in $(seq 0 "$last"); do SLURM_ARRAY_TASK_ID=$number bash "$1" >/dev/null || exit 1; done
echo "Submitted batch job 17"
"""

SETTINGS = {"dataset": "digits", "clients": 10, "rounds": 1, "workers": 1}


def test_an_array_job_runs_every_cell_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script passes bash's own check, and a second submission has nothing to do."""
    (tmp_path / "bin").mkdir()
    stand_in = tmp_path / "bin" / "sbatch"
    stand_in.write_text(STAND_IN)
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(stand_in.parent), prepend=":")
    out = tmp_path / "a sweep"
    cells = plan_cells(SETTINGS, {"seed": [0, 1]}, out)
    script = slurm_script(cells, out, processes=5)
    assert "#SBATCH --array=0-1%5\n" in script
    assert "#SBATCH --cpus-per-task=1\n" in script
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert submit(cells, out) == "Submitted batch job 17"
    after = plan_cells(SETTINGS, {"seed": [0, 1]}, out)
    assert [cell.status for cell in after] == ["done", "done"]


def test_without_sbatch_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written where nothing can be submitted."""
    monkeypatch.setenv("PATH", "")
    cells = plan_cells(SETTINGS, {"seed": [0]}, tmp_path / "out")
    with pytest.raises(InputError, match="there is no sbatch on this machine"):
        submit(cells, tmp_path / "out")
    assert not (tmp_path / "out").exists()

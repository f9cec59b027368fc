"""The cells of a sweep as one array job of SLURM: a file for each cell, a script, and one call of ``sbatch``."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from unskew.errors import InputError
from unskew.files import write_file

if TYPE_CHECKING:
    from unskew.runs.sweep import Cell

FOLDER = "slurm"
"""Where the script, the cells' files and what the cells say lie, in the sweep's folder."""


def slurm_script(cells: list[Cell], out: Path, processes: int | None = None) -> str:
    """The script of the array job; ``processes``: no more at a time than this."""
    place = (out / FOLDER).resolve()
    cores = max((cell.spec.workers or 1) for cell in cells)
    limit = f"%{processes}" if processes else ""
    gpu = any(cell.spec.device.startswith("cuda") for cell in cells)
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={shlex.quote(f'unskew-{out.name}')}",
        f"#SBATCH --array=0-{len(cells) - 1}{limit}",
        f"#SBATCH --cpus-per-task={cores}",
        *(["#SBATCH --gpus-per-task=1"] if gpu else []),
        f"#SBATCH --output={shlex.quote(str(place / '%a.txt'))}",
        "#SBATCH --requeue",
        "#SBATCH --signal=TERM@120",
        "# partition, account and time: export SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_TIMELIMIT before submitting",
        "export UNSKEW_CORES=${SLURM_CPUS_PER_TASK:-1}",
        f"exec {shlex.quote(sys.executable)} -m unskew cell {shlex.quote(str(place))}/$SLURM_ARRAY_TASK_ID.json",
    ]
    return "\n".join(lines) + "\n"


def submit(cells: list[Cell], out: Path, processes: int | None = None) -> str:
    """Write the cells' files and the script, and submit them; what SLURM said of it."""
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise InputError(
            "there is no sbatch on this machine; run this on a login node of a SLURM cluster, or add --dry-run to see "
            "the script"
        )
    place = out / FOLDER
    place.mkdir(parents=True, exist_ok=True)
    for number, cell in enumerate(cells):
        cell.folder = cell.folder.resolve()
        cell.write_file(place / f"{number}.json")
    script = place / "sweep.sh"
    write_file(script, slurm_script(cells, out, processes))
    done = subprocess.run([sbatch, str(script)], capture_output=True, text=True)
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or [f"code {done.returncode}"]
        raise InputError(f"sbatch refused the sweep ({words[-1]}); the script is {script}")
    return done.stdout.strip()

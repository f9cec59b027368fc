"""Many runs: a grid over any settings, several processes, finished cells skipped, a failed one on its own."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Unpack

from unskew.errors import InputError
from unskew.log import read_folder
from unskew.settings import AllSettings
from unskew.spec import Spec, grid_values


@dataclass
class Cell:
    """One run of a sweep."""

    name: str
    spec: Spec
    folder: Path
    status: str = "waiting"  # waiting, running, done, failed
    error: str = ""

    @property
    def result(self) -> dict[str, Any]:
        return read_folder(self.folder)[0].result if (self.folder / "spec.json").exists() else {}


def cells(settings: Mapping[str, Any], grid: Mapping[str, Any], out: Path) -> list[Cell]:
    """Every combination of the grid's values, each with a folder named by them."""
    if not grid:
        raise InputError('there is nothing to sweep; give values, e.g. [sweep] with seed = "0-4"')
    values = [
        [(name, v) for v in grid_values(name, given, f"[sweep] {name}")] for name, given in grid.items()
    ]
    made: list[Cell] = []
    for combination in itertools.product(*values):
        chosen = {k: tuple(v) if isinstance(v, list) else v for k, v in combination}
        name = ",".join(f"{k}={v}" for k, v in chosen.items())
        folder = out / folder_name(name)
        if twin := next((cell for cell in made if cell.folder == folder), None):
            raise InputError(f"the cells {twin.name} and {name} are the same; sweep each value once")
        made.append(Cell(name, Spec.of({**settings, **chosen}, f"cell {name}"), folder))
    return made


LONGEST_NAME = 255
"""Bytes that a folder's name may have on the usual file systems."""


def folder_name(cell: str) -> str:
    """The name of a cell's folder; one that is too long ends in a hash of the whole."""
    name = re.sub(r"[^A-Za-z0-9.,=+()-]+", "_", cell)
    if len(name) <= LONGEST_NAME:
        return name
    ending = "-" + hashlib.sha256(cell.encode()).hexdigest()[:12]
    return name[: LONGEST_NAME - len(ending)] + ending


def sweep(
    grid: Mapping[str, Any],
    out: str | Path,
    *,
    processes: int = 2,
    tell: Callable[[list[Cell]], None] = lambda cells: None,
    **settings: Unpack[AllSettings],
) -> list[Cell]:
    """Run every cell in a process of its own; what is done is skipped, what was stopped goes on.

    Each process has one torch thread, so their number changes nothing but the time.
    """
    if processes < 1:
        raise InputError(f"processes must be at least 1, not {processes}")
    todo = cells(settings, grid, Path(out))
    for cell in todo:
        _check(cell)
    waiting = [cell for cell in todo if cell.status == "waiting"]
    from unskew.setup import check_words  # torch takes a second to load, and a list of cells needs none

    for cell in waiting:
        try:
            check_words(cell.spec)
        except InputError as problem:
            raise InputError(f"cell {cell.name}: {problem}") from None
    running: list[tuple[Cell, subprocess.Popen[str], IO[str]]] = []
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                cell = waiting.pop(0)
                cell.status = "running"
                running.append((cell, *_start(cell)))
            tell(todo)
            time.sleep(0.05)
            for ended in [r for r in running if r[1].poll() is not None]:
                cell, process, complaint = ended
                running.remove(ended)
                cell.status = "done" if process.returncode == 0 else "failed"
                if cell.status == "failed":
                    complaint.seek(0)
                    said = complaint.read().strip().splitlines()
                    cell.error = said[-1] if said else f"ended by signal {-process.returncode}"
        tell(todo)
    finally:
        for _, process, _ in running:
            process.terminate()
        for _, process, _ in running:
            process.wait()
    return todo


def _check(cell: Cell) -> None:
    """Mark a cell that is done, or that cannot be read; refuse a folder that holds something else."""
    if not (cell.folder / "spec.json").exists():
        return
    try:
        folder, spec, _ = read_folder(cell.folder)
    except InputError as problem:
        cell.status, cell.error = "failed", f"error: {problem}"
        return
    if spec != cell.spec:
        other = next(k for k, v in cell.spec.as_dict().items() if spec.as_dict()[k] != v)
        raise InputError(
            f"{cell.folder} was run with {other} = {getattr(spec, other)!r}, not {getattr(cell.spec, other)!r}; "
            f"choose another --out"
        )
    if folder.is_done and not folder.damage:
        cell.status = "done"


def _start(cell: Cell) -> tuple[subprocess.Popen[str], IO[str]]:
    """The cell's process, and the file it complains into: a pipe that nobody reads would fill up and hang it."""
    begun = (cell.folder / "spec.json").exists()
    words = ["resume", str(cell.folder)] if begun else ["run", "--out", str(cell.folder), *flags(cell.spec)]
    complaint = tempfile.TemporaryFile("w+")  # noqa: SIM115  it lives as long as the process
    command = [sys.executable, "-m", "unskew", *words, "--json"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=complaint, text=True), complaint


def flags(spec: Spec) -> list[str]:
    """The command-line flags that make this spec."""
    words: list[str] = []
    for name, value in spec.changed().items():
        flag = "--" + name.replace("_", "-")
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, tuple):
            words += [w for v in value for w in (flag, str(v))]
        else:
            words += [flag, str(value)]
    return words


def table(done: list[Cell]) -> list[dict[str, Any]]:
    """One row a cell: what it was, how it ended, what came out."""
    rows = []
    for cell in done:
        result = cell.result if cell.status == "done" else {}
        rows.append(
            {
                "cell": cell.name,
                "status": cell.status,
                "final": result.get("final", {}).get("accuracy"),
                "best": result.get("best", {}).get("accuracy"),
                "error": cell.error,
                "folder": str(cell.folder),
            }
        )
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]

"""What a node of a Ray cluster does with a cell of a sweep, and the post that it writes to.

A module of its own that loads no torch: Ray loads it in a process of the node before the cell's own process begins, and
in the post's, which only keeps letters.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from unskew.files import write_file
from unskew.machine.cores import LIMIT

EVERY = 1.0
"""Seconds between two letters of a cell."""

Files = dict[str, bytes]
"""What lies in a folder, by path."""


class Post:
    """An actor beside the sweep: cells leave letters there, and read in answer whether to go on."""

    def __init__(self) -> None:
        self.letters: dict[int, Files] = {}
        self.ending = False

    def leave(self, number: int, files: Files) -> bool:
        self.letters[number] = self.letters.get(number, {}) | files
        return self.ending

    def collect(self) -> dict[int, Files]:
        found, self.letters = self.letters, {}
        return found

    def end(self) -> None:
        self.ending = True


def carry_out_cell(
    number: int, told: dict[str, Any], mark: str, before: Files, cores: int, post: Any
) -> tuple[int, str, Files]:
    """What a node does with a cell: (exit code, last words, its files where the sweep cannot see them)."""
    import ray

    with tempfile.TemporaryDirectory(prefix="unskew-") as place:
        seen = os.path.exists(mark)
        folder = Path(told["folder"]) if seen else Path(place) / "run"
        known: dict[str, Any] = {}
        if not seen:
            write_files(folder, before)
            files_in(folder, known)
        cell, complaint = Path(place) / "cell.json", Path(place) / "said.txt"
        write_file(cell, json.dumps(told | {"folder": str(folder)}))
        with open(complaint, "wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-c", CELL, str(os.getpid()), str(cell)],
                stdout=subprocess.DEVNULL,
                stderr=said,
                env={**os.environ, LIMIT: str(cores)},
            )
        try:
            written = 0.0
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
                if time.monotonic() - written < EVERY:
                    continue
                news, written = {} if seen else files_in(folder, known), time.monotonic()
                if ray.get(post.leave.remote(number, news)):
                    process.terminate()
                    process.wait()
        except BaseException:  # the sweep is gone
            process.terminate()
            process.wait()
            raise
        code = process.returncode
        words = complaint.read_text(errors="replace").strip().splitlines()
        last = "" if code == 0 else words[-1] if words else f"ended with code {code}"
        return code, last, {} if seen else files_in(folder, {})


CELL = """
import signal, sys
from unskew.engines.cpu.workers import die_with
die_with(int(sys.argv[1]), signal.SIGTERM)
from unskew.cli import main
sys.argv = ["unskew", "cell", sys.argv[2]]
sys.exit(main())
"""
"""A cell's process: it saves and ends when the task does, however that ends."""

LOG = "rounds.jsonl"


def files_in(folder: Path, known: dict[str, Any]) -> Files:
    """The files of a folder that are new or have changed since ``known``, which is brought up to date.

    The log comes last: it may be ahead of the state that a resume reads, and never behind it.
    """
    found: Files = {}
    for path in sorted(folder.rglob("*"), key=lambda path: path.name == LOG):
        with contextlib.suppress(OSError):  # one that has just been replaced is found the next time
            about = path.stat()
            stamp, name = (
                (about.st_mtime_ns, about.st_size, about.st_ino),
                path.relative_to(folder).as_posix(),
            )
            if path.is_file() and path.suffix not in (".lock", ".tmp") and known.get(name) != stamp:
                found[name], known[name] = path.read_bytes(), stamp
    return found


def write_files(folder: Path, files: Files) -> None:
    """Write such files, each whole or not at all."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        write_file(folder / name, content)

"""Where the runs of a sweep live: one process that has torch loaded, and a fork of it for every run.

A fork starts at once, has the memory of nobody before it, and dies alone. The process takes one JSON order per line
(``{"number": 3, "cell": FILE, "complaint": FILE, "cores": 2}``) and answers one a run that has ended
(``{"number": 3, "code": 0}``); what the run is to do is in the cell's file (``unskew.runs.cell_file``).
Its life hangs on its input: when that is closed, by whatever end of the sweep, the runs are asked to end as by Ctrl-C,
so they save, and then it ends too. Where there is no safe fork every run is a process that loads torch itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from unskew.errors import RunFailed
from unskew.machine.cores import LIMIT
from unskew.runs.cell_file import write_stop

FORKS = sys.platform == "linux"
"""Elsewhere a fork of a process with torch in it may hang."""

DEATHS = 3
"""A warm process that dies so often is not started again."""


class Stable(Protocol):
    """Runs the cells of a sweep in processes of their own."""

    def start(self, number: int, write: Callable[[Path], None], cores: int) -> None:
        """Begin a run, or go on with it; ``number`` names it from now on, and ``write`` its spec file."""
        ...

    def ended(self, patience: float) -> list[tuple[int, int, str]]:
        """(number, exit code, last words) of the runs that ended, waiting at most so many seconds for one."""
        ...

    def stop(self, number: int, reason: str, by: str) -> None:
        """Ask a run to end after its next round, since ``by`` wants it."""
        ...

    def close(self) -> None:
        """Ask what still runs to end, and wait until it has saved."""
        ...


def stable() -> Stable:
    """The quickest that this machine has."""
    return Warm() if FORKS else Cold()


class RunFiles:
    """Files of runs while they live: the spec that each is handed, and what it says on its standard error.

    That is a file since a pipe that nobody reads would fill up and hang the run.
    """

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="unskew-")

    def complaint(self, number: int) -> Path:
        return Path(self.folder.name) / f"{number}.txt"

    def cell(self, number: int) -> Path:
        return Path(self.folder.name) / f"{number}.json"

    def stop(self, number: int, reason: str, by: str) -> None:
        """Leave word for a run that it is to end."""
        write_stop(self.cell(number), reason, by)

    def last(self, number: int, code: int) -> str:
        """The last line that a run said; nothing of one that did well."""
        if code == 0:
            return ""
        said = self.complaint(number).read_text(errors="replace").strip().splitlines()
        if said and code > 0:
            return said[-1]
        why = " (most likely of too little memory; try fewer at a time)" if code == -signal.SIGKILL else ""
        return f"ended by signal {-code}{why}" if code < 0 else f"ended with code {code}"


class Warm:
    """The sweep's end of the warm process."""

    def __init__(self) -> None:
        self.files, self.deaths = RunFiles(), 0
        self.running: dict[int, dict[str, Any]] = {}
        self._begin()

    def _begin(self) -> None:
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "unskew.cli.warm_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
        )
        self.read = b""

    def start(self, number: int, write: Callable[[Path], None], cores: int) -> None:
        cell, complaint = self.files.cell(number), self.files.complaint(number)
        write(cell)
        order = {"number": number, "cell": str(cell), "complaint": str(complaint), "cores": cores}
        self.running[number] = order
        self._send(order)

    def _send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):  # it has died: the next look finds out
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def ended(self, patience: float) -> list[tuple[int, int, str]]:
        assert self.process.stdout is not None
        pipe = self.process.stdout.fileno()
        if not select.select([pipe], [], [], patience)[0]:
            return []
        if not (piece := os.read(pipe, 65536)):
            self._begin_again()
            return []
        *lines, self.read = (self.read + piece).split(b"\n")
        found = []
        for line in lines:
            told = json.loads(line)
            number, code = told["number"], told["code"]
            del self.running[number]
            found.append((number, code, self.files.last(number, code)))
        return found

    def _begin_again(self) -> None:
        """The warm process has died, and its runs with it, for no fault of theirs: they go on in a new one."""
        self.deaths += 1
        self._end()
        self.said.seek(0)
        words = self.said.read().decode(errors="replace").strip().splitlines()
        if self.deaths >= DEATHS:
            raise RunFailed(
                f"the process that starts a sweep's runs died {DEATHS} times"
                + (f" ({words[-1]})" if words else "; most likely of too little memory")
            )
        self._begin()
        for order in self.running.values():
            self._send(order)  # what has begun goes on

    def stop(self, number: int, reason: str, by: str) -> None:
        self.files.stop(number, reason, by)

    def _end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        while self.process.stdout.read(65536):  # it ends when the last run has
            pass
        self.process.stdout.close()
        self.process.wait()

    def close(self) -> None:
        if not self.running:
            self.process.kill()  # it may still be loading what nobody needs any more
        self._end()
        self.said.close()
        self.files.folder.cleanup()


class Cold:
    """A process a run, where there is no safe fork."""

    def __init__(self) -> None:
        self.files = RunFiles()
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, write: Callable[[Path], None], cores: int) -> None:
        write(cell := self.files.cell(number))
        with open(self.files.complaint(number), "wb") as complaint:
            self.running[number] = subprocess.Popen(
                [sys.executable, "-m", "unskew", "cell", str(cell)],
                stdout=subprocess.DEVNULL,
                stderr=complaint,
                env={**os.environ, LIMIT: str(cores)},
            )

    def ended(self, patience: float) -> list[tuple[int, int, str]]:
        until = time.monotonic() + patience
        while True:
            over = {n: code for n, process in self.running.items() if (code := process.poll()) is not None}
            if over or time.monotonic() >= until:
                break
            time.sleep(0.02)
        for number in over:
            del self.running[number]
        return [(number, code, self.files.last(number, code)) for number, code in over.items()]

    def stop(self, number: int, reason: str, by: str) -> None:
        self.files.stop(number, reason, by)

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()
        self.files.folder.cleanup()

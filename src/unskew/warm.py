"""Where the runs of a sweep live: one process that has torch loaded, and a fork of it for every run.

A fork starts at once, has the memory of nobody before it, and dies alone. The process takes one JSON order a line
(``{"number": 3, "words": ["run", ...], "complaint": FILE, "cores": 2}``) and answers one a run that has ended
(``{"number": 3, "code": 0}``). Its life hangs on its input: when that is closed, by whatever end of the sweep, the
runs are asked to end as by Ctrl-C, so they save, and then it ends too. Where there is no safe fork every run is a
process that loads torch itself.
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
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from unskew.cores import LIMIT
from unskew.errors import RunFailed

FORKS = sys.platform == "linux"
"""Elsewhere a fork of a process with torch in it may hang."""

POLITE = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""What asks a run to save and end."""

DEATHS = 3
"""A warm process that dies so often is not started again."""


class Stable(Protocol):
    """Runs the command line's words in processes of their own."""

    def start(self, number: int, words: Sequence[str], cores: int) -> None:
        """Begin a run; ``number`` names it from now on."""
        ...

    def ended(self, patience: float) -> list[tuple[int, int, str]]:
        """(number, exit code, last words) of the runs that ended, waiting at most so many seconds for one."""
        ...

    def close(self) -> None:
        """Ask what still runs to end, and wait until it has saved."""
        ...


def stable() -> Stable:
    """The quickest that this machine has."""
    return Warm() if FORKS else Cold()


class Complaints:
    """What runs say on their standard error, in files: a pipe that nobody reads would fill up and hang them."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="unskew-")

    def file(self, number: int) -> Path:
        return Path(self.folder.name) / str(number)

    def last(self, number: int, code: int) -> str:
        """The last line that a run said; nothing of one that did well."""
        if code == 0:
            return ""
        said = self.file(number).read_text(errors="replace").strip().splitlines()
        if said and code > 0:
            return said[-1]
        why = " (most likely of too little memory; try fewer at a time)" if code == -signal.SIGKILL else ""
        return f"ended by signal {-code}{why}" if code < 0 else f"ended with code {code}"


class Warm:
    """The sweep's end of the warm process."""

    def __init__(self) -> None:
        self.complaints, self.deaths = Complaints(), 0
        self.running: dict[int, dict[str, Any]] = {}
        self._begin()

    def _begin(self) -> None:
        self.said = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "unskew.warm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
        )
        self.read = b""

    def start(self, number: int, words: Sequence[str], cores: int) -> None:
        order = {
            "number": number,
            "words": list(words),
            "complaint": str(self.complaints.file(number)),
            "cores": cores,
        }
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
            found.append((number, code, self.complaints.last(number, code)))
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
            if "--out" in order["words"]:
                folder = order["words"][order["words"].index("--out") + 1]
                if Path(folder, "spec.json").exists():
                    order["words"] = ["resume", folder, "--json"]
            self._send(order)

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
        self.complaints.folder.cleanup()


class Cold:
    """A process a run, where there is no safe fork."""

    def __init__(self) -> None:
        self.complaints = Complaints()
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, number: int, words: Sequence[str], cores: int) -> None:
        with open(self.complaints.file(number), "wb") as complaint:
            self.running[number] = subprocess.Popen(
                [sys.executable, "-m", "unskew", *words],
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
        return [(number, code, self.complaints.last(number, code)) for number, code in over.items()]

    def close(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()
        self.complaints.folder.cleanup()


def serve() -> None:
    """The warm process: fork a run an order, tell of those that ended, end when nobody is left to order."""
    for number in POLITE:
        signal.signal(number, signal.SIG_IGN)  # the runs get them too, and save; this one ends with its input
    bell, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    import unskew.cli.run
    import unskew.run  # noqa: F401  torch, and all that a run needs of it

    running: dict[int, int] = {}  # process -> the run's number
    orders, open_for_orders = b"", True
    while open_for_orders or running:
        ready = select.select([bell, *([0] if open_for_orders else [])], [], [])[0]
        if bell in ready:
            os.read(bell, 4096)
        if 0 in ready:
            piece = os.read(0, 65536)
            *lines, orders = (orders + piece).split(b"\n")
            for line in lines:
                order = json.loads(line)
                running[_fork(order)] = order["number"]
            if not piece:
                open_for_orders = False
                for process in running:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process, signal.SIGTERM)
        for process in list(running):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                told = {"number": running.pop(process), "code": os.waitstatus_to_exitcode(status)}
                with contextlib.suppress(OSError):  # nobody listens any more
                    os.write(1, json.dumps(told).encode() + b"\n")


def _fork(order: dict[str, Any]) -> int:
    """A run in a fork of this process; its number."""
    server = os.getpid()
    # one that comes before the run can heed it waits: this process ignores them, and would pass that on
    signal.pthread_sigmask(signal.SIG_BLOCK, POLITE)
    process = os.fork()
    if process:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
        return process
    code = 1
    try:
        code = _live(order, server)
    finally:
        os._exit(code)  # without what this process would do at its own end


def _live(order: dict[str, Any], server: int) -> int:
    from unskew.cli import main
    from unskew.engines.workers import die_with

    signal.set_wakeup_fd(-1)
    for number in (*POLITE, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
    die_with(server, signal.SIGTERM)
    os.dup(1)  # the sweep reads this pipe to its end, and so waits for this run too
    with open(os.devnull, "r+b") as nothing, open(order["complaint"], "wb") as complaint:
        for here, there in ((nothing, 0), (nothing, 1), (complaint, 2)):
            os.dup2(here.fileno(), there)
    os.environ[LIMIT] = str(order["cores"])
    code = main(order["words"])
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve()

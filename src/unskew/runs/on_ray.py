"""The cells of a sweep as tasks of a Ray cluster: each in a process of its own on some node, with its share of cores.

A node that sees the sweep's folder (the same machine, or a shared file system) writes a cell where it belongs. From
another what the cell has written is fetched every few seconds, so that the sweep sees how far it is, and a cell that is
stopped, or whose node is lost, goes on from what was fetched.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unskew.engines.cluster.connect import connect
from unskew.errors import InputError
from unskew.files import write_file
from unskew.machine.cores import LIMIT
from unskew.machine.cores import cores as cores_here
from unskew.runs.fork_server import RunFiles

ATTEMPTS = 3
"""How often a cell goes on elsewhere when its node is lost."""

EVERY = 1.0
"""Seconds between two letters of a cell."""

PATIENCE = 60.0
"""Seconds for which cells may save when the sweep is asked to end."""

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


class OnRay:
    """Runs the cells of a sweep on a cluster (``fork_server.Stable``)."""

    def __init__(self, address: str | None, out: Path, processes: int | None, gpus_wanted: bool = True):
        self.connection = connect(address, cores_here())
        self.ray = self.connection.ray
        self.files = RunFiles()
        self.running: dict[Any, int] = {}
        self.told: dict[int, dict[str, Any]] = {}
        self.lost: dict[int, int] = {}  # how often a cell's node was lost
        self.out = out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.mark = self.out / f".seen-{secrets.token_hex(8)}"
        self.mark.touch()
        self.post = self._open_post()
        self.mail = self.post.collect.remote()
        nodes = [n["Resources"] for n in self.ray.nodes() if n["Alive"]]
        cpus = max(1, int(sum(n.get("CPU", 0) for n in nodes)))
        self.gpus = int(sum(n.get("GPU", 0) for n in nodes)) if gpus_wanted else 0
        self.at_a_time = min(processes or cpus, cpus, self.gpus or cpus)
        self.largest = max(1, int(max((n.get("CPU", 0) for n in nodes), default=1)))
        self.each = min(self.largest, max(1, cpus // self.at_a_time))

    def _open_post(self) -> Any:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = self.ray.get_runtime_context().get_node_id()
        place = NodeAffinitySchedulingStrategy(here, soft=False)  # it lives as long as the sweep's own node
        return self.ray.remote(Post).options(num_cpus=0, scheduling_strategy=place).remote()

    def start(self, number: int, write: Callable[[Path], None], cores: int) -> None:
        write(cell := self.files.cell(number))
        told = json.loads(cell.read_text("utf-8"))
        told["folder"] = str(Path(told["folder"]).resolve())
        self.told[number] = told
        self._begin(number)

    def _begin(self, number: int) -> None:
        told = self.told[number]
        before = files_in(Path(told["folder"]), {})
        task = self.ray.remote(carry_out_cell).options(max_retries=0, **self.claim(told))
        ref = task.remote(number, told, str(self.mark), before, self.each, self.post)
        self.running[ref] = number

    def claim(self, told: dict[str, Any]) -> dict[str, int]:
        """What a cell is given: its share of the cores, and a GPU where there are any and it may use one."""
        gpu = self.gpus and told["spec"].get("device", "auto") != "cpu"
        return {"num_cpus": self.each, **({"num_gpus": 1} if gpu else {})}

    def stop(self, number: int, reason: str, by: str) -> None:
        raise InputError(
            "a watcher cannot stop a run on a Ray cluster; write stop, patience or budget, which a run looks at itself"
        )

    def ended(self, patience: float) -> list[tuple[int, int, str]]:
        ready, _ = self.ray.wait([*self.running], num_returns=1, timeout=patience)
        self._collect()
        found = []
        for ref in ready:
            number = self.running.pop(ref)
            try:
                code, said, after = self.ray.get(ref)
            except self.ray.exceptions.RayError as problem:
                self.lost[number] = self.lost.get(number, 0) + 1
                if self.lost[number] <= ATTEMPTS:
                    self._begin(number)
                    continue
                words = [line.strip() for line in str(problem).splitlines() if line.strip()]
                code, said, after = 1, f"its node was lost ({words[-1]})", {}
            write_files(Path(self.told[number]["folder"]), after)
            found.append((number, code, said))
        return found

    def _collect(self) -> None:
        """Write down what cells elsewhere have written, in their places here."""
        if not self.ray.wait([self.mail], timeout=0)[0]:
            return
        for number, files in self.ray.get(self.mail).items():
            if number in self.running.values():  # else its last word is here already
                write_files(Path(self.told[number]["folder"]), files)
        self.mail = self.post.collect.remote()

    def close(self) -> None:
        with contextlib.suppress(self.ray.exceptions.RayError):
            self.ray.get(self.post.end.remote(), timeout=PATIENCE)
        until = time.monotonic() + PATIENCE
        while self.running and time.monotonic() < until:  # they save before they end
            self.ended(1.0)
        self.mark.unlink(missing_ok=True)
        with contextlib.suppress(Exception):
            self.ray.kill(self.post)
        self.connection.close()
        self.files.folder.cleanup()


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

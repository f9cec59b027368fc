"""The cells of a sweep as tasks of a Ray cluster: each in a process of its own on some node, with its share of cores.

A node that sees the sweep's folder (the same machine, or a shared file system) writes a cell where it belongs; from
another the cell's folder is fetched when it ends. A cell whose node is lost goes on elsewhere from its last checkpoint,
or begins again where that cannot be seen.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unskew.engines.cluster.connect import connect
from unskew.files import write_file
from unskew.machine.cores import LIMIT
from unskew.machine.cores import cores as cores_here
from unskew.runs.fork_server import RunFiles

ATTEMPTS = 3
"""How often a cell is begun again when its node is lost."""


class OnRay:
    """Runs the cells of a sweep on a cluster (``fork_server.Stable``)."""

    def __init__(self, address: str | None, out: Path, processes: int | None, gpus_wanted: bool = True):
        self.connection = connect(address, cores_here())
        self.ray = self.connection.ray
        self.files = RunFiles()
        self.running: dict[Any, int] = {}
        self.folders: dict[int, Path] = {}
        self.out = out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.mark = self.out / f".seen-{secrets.token_hex(8)}"
        self.mark.touch()
        nodes = [n["Resources"] for n in self.ray.nodes() if n["Alive"]]
        cpus = max(1, int(sum(n.get("CPU", 0) for n in nodes)))
        gpus = int(sum(n.get("GPU", 0) for n in nodes)) if gpus_wanted else 0
        self.gpus = gpus > 0
        self.at_a_time = min(processes or cpus, cpus, gpus or cpus)
        self.largest = max(1, int(max((n.get("CPU", 0) for n in nodes), default=1)))
        self.each = min(self.largest, max(1, cpus // self.at_a_time))

    def start(self, number: int, write: Callable[[Path], None], cores: int) -> None:
        write(cell := self.files.cell(number))
        told = json.loads(cell.read_text("utf-8"))
        self.folders[number] = folder = Path(told["folder"]).resolve()
        told["folder"] = str(folder)
        claim = {"num_gpus": 1} if self.gpus else {}
        task = self.ray.remote(carry_out_cell).options(num_cpus=self.each, max_retries=ATTEMPTS, **claim)
        before = _packed(folder) if folder.exists() else b""
        self.running[task.remote(told, str(self.mark), before, self.each)] = number

    def ended(self, patience: float) -> list[tuple[int, int, str]]:
        ready, _ = self.ray.wait([*self.running], num_returns=1, timeout=patience)
        found = []
        for ref in ready:
            number = self.running.pop(ref)
            try:
                code, said, after = self.ray.get(ref)
            except self.ray.exceptions.RayError as problem:
                words = [line.strip() for line in str(problem).splitlines() if line.strip()]
                code, said, after = 1, f"its node was lost ({words[-1]})", b""
            if after:
                _unpacked(after, self.folders[number])
            found.append((number, code, said))
        return found

    def close(self) -> None:
        for ref in self.running:
            with contextlib.suppress(Exception):
                self.ray.cancel(ref)
        if self.running:  # they save before they end
            self.ray.wait([*self.running], num_returns=len(self.running), timeout=60)
        self.mark.unlink(missing_ok=True)
        self.connection.close()
        self.files.folder.cleanup()


def carry_out_cell(told: dict[str, Any], mark: str, before: bytes, cores: int) -> tuple[int, str, bytes]:
    """What a node does with a cell: (exit code, last words, its folder where the sweep cannot see it)."""
    with tempfile.TemporaryDirectory(prefix="unskew-") as place:
        seen = os.path.exists(mark)
        folder = Path(told["folder"]) if seen else Path(place) / "run"
        if not seen and before:
            _unpacked(before, folder)
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
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.2)
        except BaseException:  # the sweep was asked to end
            process.terminate()
            process.wait()
            raise
        code = process.returncode
        words = complaint.read_text(errors="replace").strip().splitlines()
        last = "" if code == 0 else words[-1] if words else f"ended with code {code}"
        return code, last, b"" if seen else _packed(folder)


CELL = """
import signal, sys
from unskew.engines.cpu.workers import die_with
die_with(int(sys.argv[1]), signal.SIGTERM)
from unskew.cli import main
sys.argv = ["unskew", "cell", sys.argv[2]]
sys.exit(main())
"""
"""A cell's process: it saves and ends when the task does, however that ends."""


def _packed(folder: Path) -> bytes:
    """A folder's files as one archive."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        if folder.exists():
            archive.add(folder, arcname=".", filter=lambda one: None if one.name.endswith(".lock") else one)
    return held.getvalue()


def _unpacked(content: bytes, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(folder, filter="data")

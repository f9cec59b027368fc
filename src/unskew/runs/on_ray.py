"""The cells of a sweep as tasks of a Ray cluster: each in a process of its own on some node, with its share of cores.

A node that sees the sweep's folder (the same machine, or a shared file system) writes a cell where it belongs. From
another what the cell has written is fetched every few seconds, so that the sweep sees how far it is, and a cell that is
stopped, or whose node is lost, goes on from what was fetched.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unskew.engines.cluster.connect import connect
from unskew.errors import InputError
from unskew.machine.cores import cores as cores_here
from unskew.runs.fork_server import RunFiles
from unskew.runs.ray_cell import Post, carry_out_cell, files_in, write_files

ATTEMPTS = 3
"""How often a cell goes on elsewhere when its node is lost."""

PATIENCE = 60.0
"""Seconds for which cells may save when the sweep is asked to end."""


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

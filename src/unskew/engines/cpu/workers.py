"""Worker processes over shared memory: each runs clients on one thread, and any of them may die.

The samples, the clients' lists and the models lie in memory that all processes share; a message names rows of it. Work
is handed out in fixed groups, largest first, and what a client does depends on its seed alone. So the number of
workers, who took what, and a worker killed halfway change nothing but the time.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.types import Tree
from unskew.engines.device_data import tensor_of
from unskew.errors import RunFailed, fit_to_travel
from unskew.machine.processes import can_fork, start_process

log = logging.getLogger("unskew.engines.workers")  # a name that users listen to: it stays where modules move

ATTEMPTS = 3
"""A piece of work that has ended so many workers is not tried again: then it is the work that kills, not chance."""


AHEAD = 16 * 1024
"""Bytes that fit a pipe with room to spare: work of this size may wait in it for a busy worker."""


@dataclass
class Board:
    """Rows of models in shared memory: a flat vector each, seen as trees without copying."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    flat: Tensor  # [rows, numbers]

    @staticmethod
    def like(model: Tree, rows: int, shared: bool = True) -> Board:
        numbers = sum(v.numel() for v in model.values())
        dtype = next(iter(model.values())).dtype
        flat = torch.zeros(rows, numbers, dtype=dtype)
        if shared:
            flat.share_memory_()  # type: ignore[no-untyped-call]
        return Board(tuple(model), tuple(v.shape for v in model.values()), flat)

    def fits(self, model: Tree, rows: int) -> bool:
        """Whether it holds this many models of that kind."""
        kind = tuple(model), tuple(v.shape for v in model.values()), next(iter(model.values())).dtype
        return rows <= len(self.flat) and kind == (self.names, self.shapes, self.flat.dtype)

    def tree(self) -> Tree:
        """All rows as one stacked tree, a view."""
        found, at = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = shape.numel()
            found[name] = self.flat[:, at : at + size].view(len(self.flat), *shape)
            at += size
        return found

    def row(self, number: int) -> Tree:
        return {k: v[number] for k, v in self.tree().items()}

    def is_shown(self) -> bool:
        """Whether somebody else still looks at rows of it, or at a part of one."""
        mine = 2  # ``flat``, and the storage that is asked
        return torch._C._storage_Use_Count(self.flat.untyped_storage()._cdata) > mine

    def write(self, first: int, model: Tree, stacked: bool) -> None:
        for name, value in self.tree().items():
            if stacked:
                value[first : first + len(model[name])] = model[name]
            else:
                value[first] = model[name]


@dataclass
class Worker:
    """One process and what it has been given and not yet returned."""

    process: Any
    pipe: Connection
    sent: set[str] = field(default_factory=set)  # which set-up messages it has had
    doing: list[int] = field(default_factory=list)


class Crew:
    """Some workers that answer ``target(pieces of set-up, work)``; those that die are replaced."""

    def __init__(self, count: int, target: Callable[[dict[str, Any], Any], Any], loads_script: bool = False):
        self.target, self.loads_script = target, loads_script
        self.setup: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.workers = [self._hire() for _ in range(count)]
        self.replaced = 0

    def tell(self, name: str, value: Any) -> None:
        """Give every worker, now or when it is hired, a piece of set-up; a new value replaces the old."""
        self.setup[name] = value
        self.versions[name] = self.versions.get(name, 0) + 1

    def map(self, work: Sequence[Any], advance: Callable[[int], None] = lambda amount: None) -> list[Any]:
        """The answers to these pieces of work, in order; handed out in the order given, one ahead of need.

        ``advance`` is told of each that has come.
        """
        answers: list[Any] = [None] * len(work)
        deaths = [0] * len(work)
        waiting = list(range(len(work)))
        self.pickled: dict[int, Any] = {}
        left = len(work)
        while left:
            for worker in self.workers:
                while waiting and len(worker.doing) < 2 and self._give(worker, waiting[0], work):
                    waiting.pop(0)
            ready = wait([w.pipe for w in self.workers])
            for worker in [w for w in self.workers if w.pipe in ready]:
                try:
                    number, answer, problem = worker.pipe.recv()
                except (EOFError, OSError):
                    for lost in worker.doing:
                        deaths[lost] += 1
                        if deaths[lost] >= ATTEMPTS:
                            raise RunFailed(self._why_they_died()) from None
                    waiting = sorted(worker.doing) + waiting
                    self._replace(worker)
                    continue
                if problem is not None:
                    raise problem
                worker.doing.remove(number)
                answers[number] = answer
                left -= 1
                advance(1)
        return answers

    def _why_they_died(self) -> str:
        died = f"{ATTEMPTS} workers died on the same clients, most likely"
        if self.loads_script and not can_fork():
            return (
                f"{died} because they load the script that runs, which defines the model or a part, and do again what "
                'it does: put that below `if __name__ == "__main__":`, or write workers = 1'
            )
        return f"{died} of too little memory; use fewer --workers or a smaller --batch"

    def close(self) -> None:
        """End every worker; a busy one is not waited for."""
        for worker in self.workers:
            with contextlib.suppress(OSError):
                worker.pipe.close()
            worker.process.terminate()
        for worker in self.workers:
            worker.process.join()
        self.workers = []
        self.setup = {}

    def _give(self, worker: Worker, number: int, work: Sequence[Any]) -> bool:
        """Send a piece of work; a large one only to an idle worker, who is reading.

        A busy one may be sending its answer, and two that send to each other through full pipes wait for ever.
        """
        fresh = {n: v for n, v in self.setup.items() if f"{n}:{self.versions[n]}" not in worker.sent}
        if worker.doing and fresh:
            return False
        if fresh:
            message = ForkingPickler.dumps((number, fresh, work[number]))
        else:
            message = self.pickled.get(number) or ForkingPickler.dumps((number, {}, work[number]))
            self.pickled[number] = message
        if worker.doing and len(message) > AHEAD:
            return False
        self.pickled.pop(number, None)
        worker.doing.append(number)
        with contextlib.suppress(OSError):  # it has died: the next wait() finds out
            worker.pipe.send_bytes(message)
            worker.sent |= {f"{n}:{self.versions[n]}" for n in fresh}
        return True

    def _hire(self) -> Worker:
        return Worker(*start_process(_work, self.target, os.getpid(), loads_script=self.loads_script))

    def _replace(self, worker: Worker) -> None:
        self.replaced += 1
        log.warning("worker process %s died; another takes its place and its clients", worker.process.pid)
        with contextlib.suppress(OSError):
            worker.pipe.close()
        worker.process.join()
        self.workers[self.workers.index(worker)] = self._hire()


def _work(pipe: Connection, target: Callable[[dict[str, Any], Any], Any], server: int) -> None:
    """A worker's life: take a piece of work, answer it; end when nobody is left to ask."""
    die_with(server)
    torch.set_num_threads(1)
    keep_memory()
    setup: dict[str, Any] = {}
    while True:
        try:
            number, fresh, work = pipe.recv()
        except (EOFError, OSError):
            return
        setup.update(fresh)
        try:
            answer, problem = target(setup, work), None
        except (Exception, SystemExit) as error:  # a worker that ended of it would be taken for one that died
            answer, problem = None, fit_to_travel(error)
        try:
            pipe.send((number, answer, problem))
        except OSError:
            return


def die_with(server: int, by: signal.Signals = signal.SIGKILL) -> None:
    """End this process when the server's does, however that ends: a fork holds its pipes and its lock open."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            set_parent_death_signal = 1
            ctypes.CDLL(None).prctl(set_parent_death_signal, by)
    if os.getppid() != server:
        os._exit(1)


def keep_memory() -> None:
    """Ask glibc not to return freed memory every step: on small batches that costs a tenth of the time."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        trim_threshold, mmap_threshold = -1, -3
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, 1 << 30)


def as_arrays(tree: Any) -> Any:
    """Trees of tensors as arrays, nested dicts included: a copy through a pipe, and no file handles."""
    if isinstance(tree, dict):
        return {k: as_arrays(v) for k, v in tree.items()}
    return tree.detach().cpu().numpy() if isinstance(tree, Tensor) else tree


def as_tensors(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {k: as_tensors(v) for k, v in tree.items()}
    return tensor_of(tree) if isinstance(tree, np.ndarray) else tree

"""Actors on the server's own machine write what they trained where the server reads it: in the memory of its boards.

Through the object store the same models would be copied twice, and each would be an object that Ray looks after. Job C,
whose clients train for two milliseconds each, lost a sixth of its speed to that.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from unskew.core.types import Ids, Tree
from unskew.engines.cpu.workers import Board

PATIENCE = 10.0
"""Seconds for a process that was killed to end."""


def this_machine() -> str:
    """A name of this machine and of the processes that see each other on it; nothing where there is no /proc."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


class Neighbour:
    """A process on this machine, which can be ended for certain: its number may belong to another by then."""

    def __init__(self, process: int):
        self.handle = os.pidfd_open(process)

    def end(self) -> None:
        """End it and wait until it has: it must not write any more."""
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        select.select([self.handle], [], [], PATIENCE)
        self.close()

    def close(self) -> None:
        os.close(self.handle)


def neighbour(process: int, machine: str) -> Neighbour | None:
    """A process that may write on the server's boards; None where that is on another machine."""
    if sys.platform != "linux" or not machine or machine != this_machine():
        return None
    with contextlib.suppress(OSError):
        return Neighbour(process)
    return None


@dataclass
class Lent:
    """A board of the server's, as another process of its machine can open it."""

    file: str
    board: Board  # without its numbers
    rows: int

    @staticmethod
    def of(board: Board) -> Lent | None:
        """None where memory is shared in another way than by open files."""
        how = torch.multiprocessing.get_sharing_strategy()  # type: ignore[no-untyped-call]
        if sys.platform != "linux" or how != "file_descriptor":
            return None
        number, _ = board.flat.untyped_storage()._share_fd_cpu_()
        bare = Board(board.names, board.shapes, board.flat[:0].clone())
        return Lent(f"/proc/{os.getpid()}/fd/{number}", bare, len(board.flat))

    def opened(self) -> Board:
        """The same board, not a copy."""
        bare = self.board.flat
        shape = self.rows, bare.shape[1]
        flat = np.memmap(self.file, bare.numpy().dtype, "r+", shape=shape)
        return Board(self.board.names, self.board.shapes, torch.from_numpy(flat))


@dataclass
class Rows(Board):
    """Some rows of a board, counted from 0, to be written on."""

    at: Ids

    @staticmethod
    def of(board: Board, at: Ids) -> Rows:
        return Rows(board.names, board.shapes, board.flat, at)

    def write(self, first: int, model: Tree, stacked: bool) -> None:
        assert not stacked
        super().write(int(self.at[first]), model, False)

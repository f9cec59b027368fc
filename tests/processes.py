"""What processes on this machine have started and hold open, for tests of how they end; Linux only."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable
from pathlib import Path


def heed_interrupts() -> None:
    """A shell starts what runs in the background deaf to SIGINT, tests too, and their children would inherit it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def descendants(pid: int) -> list[int]:
    """Every process that this one started, and those started."""
    found: list[int] = []
    with contextlib.suppress(OSError):  # it may end meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(p) for p in (task / "children").read_text().split()]
    return found + [below for child in found for below in descendants(child)]


def words_of(pid: int) -> str:
    """The command line of a process; nothing once it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def sockets_of(processes: Iterable[int]) -> set[str]:
    """Every socket that these have open."""
    found = set()
    for pid in processes:
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(f"/proc/{pid}/fd/{name}"))
    return {name[len("socket:[") : -1] for name in found if name.startswith("socket:[")}


def listening() -> set[str]:
    """The sockets at which somebody listens on a port."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        if Path(f"/proc/net/{name}").exists()
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {row[9] for row in rows if row[3] == "0A"}


def shared_memory_of(processes: Iterable[int]) -> set[str]:
    """The files of shared memory that these have mapped."""
    found = set()
    for pid in processes:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                if "/dev/shm/" in line:
                    found.add(line[line.index("/dev/shm/") :].removesuffix(" (deleted)"))
    return found

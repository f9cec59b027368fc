"""Processes that outlive the command that started them: written down so that no stranger is ever stopped.

A process number is given again once it is free. So the file also has when the process began, and only a process
that is the same in both is asked to end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from unskew.files import write_file

PATIENCE = 10.0


def began(pid: int) -> str | None:
    """When a process began, in the words of the system; None where there is none."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        with suppress(OSError):
            after = stat.read_text().rpartition(")")[2].split()
            return None if after[0] == "Z" else f"{_boot()} {after[19]}"
        return None
    found = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or None


def note_process(path: Path, pid: int) -> None:
    """Write down a process that was just started."""
    write_file(path, json.dumps({"pid": pid, "began": began(pid), "since": time.time()}))


def find_process(path: Path) -> tuple[int, float] | None:
    """The process that was written down, if it lives: its number, and since when."""
    try:
        told = json.loads(path.read_text())
        pid, start, since = int(told["pid"]), told["began"], float(told["since"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return (pid, since) if pid > 1 and start is not None and began(pid) == start else None


def stop_process(path: Path) -> bool:
    """End the process that was written down, politely and then not; False where there is none."""
    found = find_process(path)
    if found is None:
        path.unlink(missing_ok=True)
        return False
    pid, _ = found
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        ends = time.monotonic() + PATIENCE
        while find_process(path) is not None and time.monotonic() < ends:
            time.sleep(0.05)
    path.unlink(missing_ok=True)
    return True


def _boot() -> str:
    """Which start of the machine this is: ticks are counted from it."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""

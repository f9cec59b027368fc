"""Ends what is left of a local Ray when the process that started it is gone, however that ended.

A script of its own (``python guard.py FOLDER PROCESS``) that imports nothing of ours. Its life hangs on its input: when
that is closed it ends every other process that has a file of Ray's folder open, and removes the folder.
"""

import contextlib
import os
import shutil
import signal
import sys
import time


def users_of(folder: str) -> list[int]:
    """The processes that have a file below a folder open; Linux only."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                files = f"/proc/{name}/fd"
                if any(os.readlink(f"{files}/{n}").startswith(folder) for n in os.listdir(files)):
                    found.append(int(name))
    return found


def guard(folder: str, server: int) -> None:
    """Wait for the end; the server itself, which may have Ray's logs open still, is never touched."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for _ in range(50):  # those that end may start others meanwhile
        left = [process for process in users_of(folder + os.sep) if process != server]
        for process in left:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.1)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard(sys.argv[1], int(sys.argv[2]))

"""Workers of Ray that are forks of one process which has loaded torch and ours: so each need not, for a second.

A node starts this file in the place of Ray's ``default_worker.py``, with the same words. It asks the process that
``serve`` runs in for a fork, which becomes that very worker, and ends when the worker has. Where nobody forks it is
the worker itself: whoever joins a cluster waits for its first worker, however long.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

PLACE = "UNSKEW_TEST_RAY_FORKS"
"""The variable that names the socket at which forks are to be had."""


@contextlib.contextmanager
def forked_workers(folder: Path) -> Iterator[str]:
    """What nodes are given as ``worker_path``, while there is a process that is forked.

    That is a fresh one and not pytest's, which may have been part of another cluster: its threads would be missing.
    """
    place = str(folder / "forks")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen(64)  # who asks before all is loaded waits for it
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", str(door.fileno())],
            stdin=subprocess.PIPE,
            pass_fds=[door.fileno()],
        )
    os.environ[PLACE] = place
    try:
        yield __file__
    finally:
        del os.environ[PLACE]
        server.kill()
        server.communicate()


def serve(door: socket.socket) -> None:
    """Fork for whoever asks, until the one who started this is gone."""
    sys.path.pop(0)  # this file's folder is on no node's path
    import unskew.engines.cluster.hand  # noqa: F401  with torch; not Ray, which reads its variables when it is loaded

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the end of a worker
    while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
        asking, _ = door.accept()
        length, streams, _, _ = socket.recv_fds(asking, 8, 2)
        with asking.makefile("rb") as rest:
            words, surroundings, folder = json.loads(rest.read(int.from_bytes(length, "big")))
        if not os.fork():
            door.close()
            break
        asking.close()
        for stream in streams:
            os.close(stream)
    else:
        return
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for here, there in zip((os.open(os.devnull, os.O_RDONLY), *streams), range(3), strict=True):
        os.dup2(here, there)
    os.environ.clear()
    os.environ.update(surroundings)
    os.chdir(folder)
    sys.argv = [usual_worker(), *words]
    runpy.run_path(sys.argv[0], run_name="__main__")


def usual_worker() -> str:
    """Ray's own file, found without loading Ray."""
    found = find_spec("ray")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent / "_private" / "workers" / "default_worker.py")


def ask(place: str) -> None:
    """Have a fork made that does what this process was started for, and wait for its end, which closes the line."""
    told = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    with socket.socket(socket.AF_UNIX) as there:
        try:
            there.connect(place)
            socket.send_fds(there, [len(told).to_bytes(8, "big")], [1, 2])
            there.sendall(told)
        except OSError:
            os.execv(sys.executable, [sys.executable, usual_worker(), *sys.argv[1:]])
        there.recv(1)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(socket.socket(fileno=int(sys.argv[2])))
    else:
        ask(os.environ[PLACE])

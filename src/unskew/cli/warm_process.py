"""The warm process of a sweep: it has torch loaded, and forks itself for every run (``unskew.runs.fork_server``)."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from typing import Any

from unskew.machine.cores import LIMIT
from unskew.machine.processes import POLITE


def serve() -> None:
    """The warm process: fork a run an order, tell of those that ended, end when nobody is left to order."""
    for number in POLITE:
        signal.signal(number, signal.SIG_IGN)  # the runs get them too, and save; this one ends with its input
    bell, ring = os.pipe()
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    import unskew.cli
    import unskew.runs.running  # noqa: F401  torch, and all that a run needs of it

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
    from unskew.engines.cpu.workers import die_with

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
    code = main(["cell", order["cell"]])
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    serve()

"""Sweeps whose warm process is a fork of pytest's: the real one, but that it need not load torch for seconds."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import IO

import pytest

from unskew.cli.warm_process import serve
from unskew.runs.fork_server import FORKS, Warm


class Fork:
    """What ``Warm`` uses of a ``subprocess.Popen``."""

    def __init__(self, said: IO[bytes]):
        orders, order = os.pipe()
        told, tell = os.pipe()
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside pytest's threads
            self.pid = os.fork()
        if not self.pid:
            self._live(orders, order, told, tell, said.fileno())
        os.close(orders)
        os.close(tell)
        self.stdin, self.stdout = os.fdopen(order, "wb"), os.fdopen(told, "rb")

    def _live(self, orders: int, order: int, told: int, tell: int, said: int) -> None:
        try:
            for here, there in ((orders, 0), (tell, 1), (said, 2)):
                os.dup2(here, there)
            for parents in (order, told):
                os.close(parents)  # or it would not see that the other end is closed
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            serve()
        finally:
            os._exit(0)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        os.waitpid(self.pid, 0)


@pytest.fixture(scope="module")
def quick_sweeps() -> Iterator[None]:
    """For tests of what sweeps do, not of their processes (those are in test_fork_server.py and test_demo.py)."""

    def begin(self: Warm) -> None:
        self.said = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = Fork(self.said)  # type: ignore[assignment]
        self.read = b""

    with pytest.MonkeyPatch.context() as patch:
        if FORKS:
            patch.setattr(Warm, "_begin", begin)
        yield

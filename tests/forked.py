"""A command of unskew as a process of its own, for tests that kill or stop it: a fork of pytest's process, so that it
need not load torch for seconds."""

from __future__ import annotations

import faulthandler
import gc
import multiprocessing
import os
import signal
import sys
import tempfile
import warnings
from pathlib import Path

from unskew.cli import main

FORK = multiprocessing.get_context("fork")


class Forked:
    """``unskew WORDS``; what it says is kept in files, so that nobody need read it meanwhile."""

    def __init__(self, *words: str, new_session: bool = False):
        self.folder = tempfile.TemporaryDirectory(prefix="unskew-")
        self.said = [Path(self.folder.name, name) for name in ("stdout", "stderr")]
        self.process = FORK.Process(target=self._live, args=(words, new_session))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside pytest's threads
            self.process.start()
        assert self.process.pid is not None
        self.pid = self.process.pid

    def _live(self, words: tuple[str, ...], new_session: bool) -> None:
        """As a shell would have started it, whatever pytest changed."""
        if new_session:
            os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        gc.callbacks.clear()  # an interrupt that comes within one of Hypothesis's would be lost
        sys.unraisablehook = sys.__unraisablehook__
        for there, path in enumerate(self.said, 1):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), there)
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115  until it ends
        faulthandler.enable(sys.stderr)
        sys.exit(main(list(words)))

    @property
    def running(self) -> bool:
        return self.process.is_alive()

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def end(self, patience: float = 120) -> tuple[int, str, str]:
        """(exit code, what it said, what it complained of), once it has ended."""
        self.process.join(patience)
        if hangs := self.process.exitcode is None:
            self.send(signal.SIGABRT)  # it says where it is
            self.process.join()
        said, complaint = (path.read_text() if path.exists() else "" for path in self.said)
        self.folder.cleanup()
        assert not hangs, f"it does not end:\n{complaint}"
        return self.process.exitcode, said, complaint

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

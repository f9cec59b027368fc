"""What a scheduler, a container or a closed terminal sends ends a command as Ctrl-C does: saved, and resumable."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

POLITE = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(SystemExit):
    """The command was interrupted, and has said what that means."""

    def __init__(self) -> None:
        super().__init__(130)


_stopping = False
"""Whether this command was told to stop."""


class HeedStop:
    """A watcher that ends a run after a round, if it was told to stop and went on all the same.

    Python drops an exception that a signal raises while it cleans something up (``__del__``, a callback of the garbage
    collector), and KeyboardInterrupt is such a one.
    """

    def round_ended(self, round: object) -> None:
        if _stopping:
            raise KeyboardInterrupt


@contextlib.contextmanager
def stopped_as_by_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, once: one that comes while a run is being saved is late.

    A sweep is such a case: the terminal sends Ctrl-C to its runs, and then it asks them to end. A second Ctrl-C still
    interrupts the saving. What the caller had set to be ignored (``nohup``) stays ignored.
    """
    global _stopping
    _stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        global _stopping
        if _stopping and number in POLITE:
            return
        _stopping = True
        raise KeyboardInterrupt

    def unless_stopped(tell: Callable[..., Any]) -> Callable[..., None]:
        def hook(*told: Any) -> None:
            if not _stopping:
                tell(*told)

        return hook

    # an interrupt that Python drops, and a helper thread whose worker has ended, would each print a traceback
    hooks = sys.excepthook, sys.unraisablehook
    sys.excepthook, sys.unraisablehook = unless_stopped(hooks[0]), unless_stopped(hooks[1])
    before = {}
    if threading.current_thread() is threading.main_thread():  # elsewhere Python lets nobody set a handler
        for number, usual in {
            signal.SIGINT: signal.default_int_handler,
            **dict.fromkeys(POLITE, signal.SIG_DFL),
        }.items():
            if signal.getsignal(number) == usual:
                before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        sys.excepthook, sys.unraisablehook = hooks
        for number, handler in before.items():
            signal.signal(number, handler)

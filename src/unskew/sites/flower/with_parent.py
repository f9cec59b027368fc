"""A process that ends when the one that started it is gone, however that ended."""

from __future__ import annotations

import os
import signal
import threading
import time

PARENT = "UNSKEW_PARENT"


def end_with_parent() -> None:
    """Watch the parent that the environment names; where it names none, live on."""
    named = os.environ.pop(PARENT, "")
    if named:
        threading.Thread(target=_watch, args=(int(named),), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)

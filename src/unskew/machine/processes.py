"""How another process is started: forked where that is safe, else spawned, without the script that runs."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

POLITE = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
"""What asks a run to save and end: Ctrl-C, a scheduler, a closed terminal."""


def can_fork() -> bool:
    """Whether a fork of this process could train.

    Not on a machine with a GPU: there autograd starts threads with the first gradient, also of the CPU, and a fork of
    such a process refuses to take any. Nothing tells for certain whether it has them yet.
    """
    import torch

    return sys.platform == "linux" and not torch.accelerator.is_available()


def script_can_be_loaded() -> bool:
    """Whether another process could load the script that runs: what is typed, or comes from a pipe, has no file."""
    script = sys.modules["__main__"]
    return getattr(script, "__file__", None) is not None or getattr(script, "__spec__", None) is not None


def of_script(value: Any) -> bool:
    """Whether some of a value is defined in the script that runs; an exception where it cannot be sent at all."""
    written = io.BytesIO()
    _WithoutNumbers(written).dump(value)
    return b"__main__" in written.getvalue()


class _WithoutNumbers(ForkingPickler):
    """Leaves tensors and arrays out. A tensor that is written to be sent moves into shared memory, which then stays
    open until somebody receives it; and what is only looked through, nobody receives."""

    def reducer_override(self, value: Any) -> Any:
        import torch

        numbers = type(value) in (torch.Tensor, torch.nn.Parameter)
        if numbers or (type(value) is np.ndarray and not value.dtype.hasobject):
            return tuple, ()
        return NotImplemented


def start_process(
    target: Callable[..., None], *args: Any, loads_script: bool = False
) -> tuple[Any, Connection]:
    """A process that is handed its end of a pipe and ends with this one; and our end.

    A fork starts at once and has all that is here. A spawned process loads modules anew, and the script that runs only
    where that is needed: for what is defined there, now or (``loads_script``) in what it will be sent. The script then
    runs once more, but for what stands below its guard.
    """
    import torch.multiprocessing

    forks = can_fork()
    context: Any = torch.multiprocessing.get_context("fork" if forks else "spawn")
    here, there = context.Pipe()
    process = context.Process(target=_live, args=(target, there, *args), daemon=True)
    as_it_is = forks or loads_script or of_script(args)
    with (
        _polite_signals_wait(),
        warnings.catch_warnings(),
        contextlib.nullcontext() if as_it_is else _no_script(),
    ):
        # a progress bar's thread may live in this process; the new one touches nothing of it
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    there.close()
    return process, here


def _live(target: Callable[..., None], *args: Any) -> None:
    """The new process: Ctrl-C is for the one that started it, which ends this one by SIGTERM."""
    for number in POLITE:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, POLITE)
    target(*args)


@contextlib.contextmanager
def _polite_signals_wait() -> Iterator[None]:
    """A terminal sends Ctrl-C to all processes: one that comes within a fork would be lost here, and raised there."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, POLITE)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _no_script() -> Iterator[None]:
    """Let the script look as if it had no file, so that a process that is started now does not load it."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script

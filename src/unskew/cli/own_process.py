"""What a command may do where it is all that its process does: it has the streams and the end to itself."""

from __future__ import annotations

import contextlib
import gc
import io
import signal
import sys
from collections.abc import Iterator


class LastingStderr(io.TextIOWrapper):
    """Standard error whose reader may go, or whose disk be full: what is told is lost then, and no run ends of it."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


@contextlib.contextmanager
def process_of_its_own() -> Iterator[None]:
    """Within, a command has its process to itself; then that ends, at once if Ctrl-C comes again."""
    for stream in (sys.stdout, sys.stderr):  # a pipe in Latin-1 has no alpha, and must not end the command
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
    if isinstance(err := sys.stderr, io.TextIOWrapper):
        sys.stderr = LastingStderr(err.buffer, err.encoding, err.errors, line_buffering=True)
    try:
        yield
    finally:
        gc.freeze()  # Python would look for garbage once more
        if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a traceback of what is cleaned up

"""A site's door: a Unix socket that only its owner may open, one request and one answer a connection."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from unskew.errors import InputError
from unskew.sites.carrier import MOST_MESSAGE, FrameTooLarge, connect, receive_frame, send_frame


class Door:
    """Listens from the moment it is made; ``serve`` answers until ``close``."""

    def __init__(self, path: Path, answer: Callable[[bytes], bytes], most: int = MOST_MESSAGE):
        self.path, self.answer, self.most = path, answer, most
        if len(os.fsencode(path)) > 100:
            raise InputError(f"the path {path} is too long for a socket; choose a folder nearer to the root")
        with suppress(OSError), connect(path, 1.0):
            raise InputError(f"somebody answers at {path} already; stop that process first")
        path.unlink(missing_ok=True)
        self.listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            self.listening.bind(str(path))
        finally:
            os.umask(before)
        self.listening.listen(16)

    def serve(self) -> None:
        """Answer whoever comes, each in a thread; returns once the door is closed."""
        while True:
            try:
                there, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(there,), daemon=True).start()

    def _one(self, there: socket.socket) -> None:
        with there, suppress(OSError, FrameTooLarge):
            there.settimeout(60.0)
            request = receive_frame(there, self.most)
            if request is not None:
                there.settimeout(None)
                send_frame(there, self.answer(request))

    def close(self) -> None:
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.path.unlink(missing_ok=True)

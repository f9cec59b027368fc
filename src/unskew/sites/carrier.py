"""How bytes get to sites and back. A carrier opens no message, knows nothing of learning, and needs no torch."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LENGTH = 8
"""Bytes that tell how many follow."""

MOST_MESSAGE = 2 * 2**30
"""Bytes of a message, which is what Flower carries at most."""


@dataclass(frozen=True)
class Lost:
    """No answer of a site, and why: one sentence without its name. ``away``: it may come back, and was not reached."""

    reason: str
    away: bool = False


class Carrier(Protocol):
    """Brings requests to sites, all at once, and their answers back."""

    def names(self) -> list[str]:
        """The sites that are there now."""
        ...

    def ask(
        self, requests: Mapping[str, bytes], deadline: float | None = None, most: int = MOST_MESSAGE
    ) -> dict[str, bytes | Lost]:
        """What each of these sites answers within so many seconds; an answer of more than ``most`` bytes is lost."""
        ...

    def close(self) -> None:
        """Let go of sockets and processes; sites go on living."""
        ...


class LocalCarrier:
    """Sites on this machine, each behind a Unix socket."""

    def __init__(self, sockets: Mapping[str, Path]):
        self.sockets = dict(sockets)

    def names(self) -> list[str]:
        """The sites whose process listens."""
        found = []
        for name, path in self.sockets.items():
            with suppress(OSError), connect(path, 5.0):
                found.append(name)
        return found

    def ask(
        self, requests: Mapping[str, bytes], deadline: float | None = None, most: int = MOST_MESSAGE
    ) -> dict[str, bytes | Lost]:
        found: dict[str, bytes | Lost] = {}

        def one(name: str, request: bytes) -> None:
            found[name] = ask_socket(self.sockets[name], request, deadline, most)

        threads = [threading.Thread(target=one, args=item, daemon=True) for item in requests.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {name: found[name] for name in requests}

    def close(self) -> None:
        return


def connect(path: Path, seconds: float | None) -> socket.socket:
    """A connection to who listens there."""
    there = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        there.settimeout(seconds)
        there.connect(str(path))
    except BaseException:
        there.close()
        raise
    return there


def ask_socket(path: Path, request: bytes, deadline: float | None, most: int = MOST_MESSAGE) -> bytes | Lost:
    """One request and its answer over a Unix socket."""
    ends = None if deadline is None else time.monotonic() + deadline
    try:
        with connect(path, deadline) as there:
            send_frame(there, request)
            answer = receive_frame(there, most, ends)
    except TimeoutError:
        return Lost(f"gave no answer within {deadline:g} s")
    except FrameTooLarge as problem:
        return Lost(str(problem))
    except OSError as problem:
        return Lost(f"cannot be reached ({problem.strerror or problem})", away=True)
    return Lost("ended in the middle of its answer", away=True) if answer is None else answer


class FrameTooLarge(Exception):
    """Somebody wants to send more than is taken."""


def send_frame(there: socket.socket, data: bytes) -> None:
    """So many bytes, told beforehand."""
    there.sendall(len(data).to_bytes(LENGTH, "little"))
    there.sendall(data)


def receive_frame(there: socket.socket, most: int = MOST_MESSAGE, ends: float | None = None) -> bytes | None:
    """What was sent by ``send_frame``; None where the other side is gone. Too much is refused before it is read."""
    head = _receive(there, LENGTH, ends)
    if head is None:
        return None
    size = int.from_bytes(head, "little")
    if size > most:
        raise FrameTooLarge(f"wants to send {size:,} bytes, and {most:,} is the most that was expected")
    return _receive(there, size, ends)


def _receive(there: socket.socket, size: int, ends: float | None) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        if ends is not None:
            left = ends - time.monotonic()
            if left <= 0:
                raise TimeoutError
            there.settimeout(left)
        piece = there.recv(min(size - len(found), 1 << 20))
        if not piece:
            return None
        found += piece
    return bytes(found)

"""How large an answer may be just now: runs write it down, and the SuperLink takes no more from a site.

Each run has a file of its own in Flower's folder, since several may ask at once; the largest counts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from unskew.files import write_file

LIMITS = "limits"
USUAL = 64 * 2**20
"""Bytes that a site may send where no run has asked for more."""

OVERHEAD = 2**20
"""Bytes that Flower adds to an answer, at most."""


class Limit:
    """What one run expects now."""

    def __init__(self, home: Path):
        self.path = home / LIMITS / f"{os.getpid()}-{id(self)}"
        self.most = 0

    def set(self, most: int) -> None:
        """Let answers be so large from now on."""
        if most != self.most:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.path, str(most))
            self.most = most

    def close(self) -> None:
        self.path.unlink(missing_ok=True)
        self.most = 0


def largest(home: Path) -> int:
    """Bytes of a request that a site may send now."""
    found = [USUAL]
    for path in (home / LIMITS).glob("*"):
        with suppress(OSError, ValueError):
            found.append(int(path.read_text()))
    return max(found) + OVERHEAD

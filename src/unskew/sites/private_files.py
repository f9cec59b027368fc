"""Files that only their owner can read, from the first byte on."""

from __future__ import annotations

import os
from pathlib import Path

from unskew.errors import InputError


def write_private(path: Path, data: bytes) -> None:
    """A new file of mode 600. It is made so: there is no moment at which others could open it."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InputError(f"{path} is there already; a key is never overwritten") from None
    with os.fdopen(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def check_private(path: Path) -> None:
    """Refuse a private key that others than its owner can read."""
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        raise InputError(f"there is no key {path}; ask the coordinator for the folder again") from None
    if os.name == "posix" and mode & 0o077:
        raise InputError(f"others can read the key {path} (mode {mode:03o}); write chmod 600 {path}")


def make_private_folder(path: Path) -> Path:
    """A folder that only its owner can enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path

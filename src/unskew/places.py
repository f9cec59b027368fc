"""Paths that somebody gives: what can be one, and what must not be written over."""

from __future__ import annotations

import os
from pathlib import Path

from unskew.errors import InputError


def path_of(given: object, what: str, kind: str = "path") -> Path:
    """A path that somebody gave; what can be none is refused. ``kind`` is what ``what`` should have been."""
    if not isinstance(given, (str, os.PathLike)):
        raise InputError(f"{what} is a {kind}, not {given!r}")
    text = os.fspath(given)
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise InputError(f"{what} is a {kind}, not {text!r}")
    return Path(text)


def refuse_replacing(place: Path, read: str | os.PathLike[str]) -> None:
    """Refuse to write over the file that is read."""
    read = os.path.expanduser(read)
    if os.path.isfile(read) and os.path.exists(place) and os.path.samefile(place, read):
        raise InputError(f"{place} is the data that is read, and would be lost; write to another file")

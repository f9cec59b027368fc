"""What a site was asked and what it sent, line by line, for a data protection officer to read.

Two files that only grow: ``sent.log`` in plain words, ``sent.jsonl`` with the same for programs. A line is on the disk
before the answer leaves.
"""

from __future__ import annotations

import datetime
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unskew.errors import one_line

TEXT, LINES = "sent.log", "sent.jsonl"


@dataclass(frozen=True)
class Entry:
    """One request and its answer. ``round`` is counted from 0, as in a run's log; none where there is no run."""

    asked: str
    sent: str = "nothing"
    bytes_in: int = 0
    bytes_out: int = 0
    run: str = ""
    round: int | None = None
    refused: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)

    def sentence(self, when: str) -> str:
        """The line that people read."""
        where = f"run {one_line(self.run)}" if self.run else "no run"
        if self.round is not None:
            where += f", round {self.round + 1}"
        what = one_line(self.asked)
        what = what if what.startswith("to ") else f"for {what}"
        asked = f"{when}  {where}: asked {what} ({self.bytes_in:,} bytes)"
        if self.refused:
            return f"{asked}; REFUSED: {one_line(self.refused)}"
        return f"{asked}; sent {one_line(self.sent)} ({self.bytes_out:,} bytes)"


class OfficerLog:
    """The two files, in a site's folder. ``show`` is told each line that people read as well."""

    def __init__(self, folder: Path, show: Callable[[str], None] | None = None):
        self._folder, self._show, self._lock = folder, show, threading.Lock()

    def write(self, entry: Entry) -> None:
        """Add a line to both files; it is on the disk when this returns."""
        when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        sentence = entry.sentence(when)
        line = json.dumps({"time": when, **asdict(entry)}, ensure_ascii=True, default=str)
        with self._lock:
            _append(self._folder / LINES, line)
            _append(self._folder / TEXT, sentence)
        if self._show is not None:
            self._show(sentence)


def _append(path: Path, line: str) -> None:
    """One write to the end of a file that only its owner reads: lines of two writers never mix."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        data = (line + "\n").encode("utf-8", "backslashreplace")
        while data:  # a full disk may take a part of it
            data = data[os.write(file, data) :]
        os.fsync(file)
    finally:
        os.close(file)

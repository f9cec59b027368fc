"""What a site keeps of a run is deleted once nobody has asked for it for some days, or by hand."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from unskew.files import write_file
from unskew.sites.names import check_name

RUNS, START = "runs", "start.message"
DAY = 24 * 60 * 60


class KeptRuns:
    """The runs of a site's folder: how each began, and what its clients remember of it."""

    def __init__(self, state: Path):
        self.folder = state / RUNS

    def path(self, run: str) -> Path:
        return self.folder / check_name(run, "run")

    def began(self, run: str, how: bytes) -> None:
        """Keep how a run began, so that a site that was restarted goes on with it."""
        path = self.path(run)
        path.mkdir(parents=True, exist_ok=True)
        write_file(path / START, how)

    def beginning(self, run: str) -> bytes | None:
        """How a run began; None where it was forgotten, or never told."""
        path = self.path(run) / START
        return path.read_bytes() if path.is_file() else None

    def asked(self, run: str) -> None:
        """Somebody asked about a run just now."""
        os.utime(self.path(run) / START)

    def idle(self) -> dict[str, float]:
        """Run -> days since somebody asked about it."""
        found = {}
        for path in sorted(self.folder.glob("*")):
            begin = path / START
            seen = (begin if begin.is_file() else path).stat().st_mtime
            found[path.name] = max(0.0, (time.time() - seen) / DAY)
        return found

    def forget(self, days: float) -> list[str]:
        """Delete what was not asked about for so many days; which runs."""
        gone = [run for run, idle in self.idle().items() if idle >= days]
        for run in gone:
            shutil.rmtree(self.folder / run)
        return gone

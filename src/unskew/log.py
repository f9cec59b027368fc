"""The run folder: what a run was asked for, what happened, what came out; readable from the first second.

spec.json      re-creates the run alone
rounds.jsonl   one object a round, written as it goes
state/         checkpoints, the last two
partition.npz  who holds which samples
result.json    status (running, then done or failed), the numbers, the costs
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unskew import __version__
from unskew.errors import InputError
from unskew.spec import Spec
from unskew.state import write_atomically

FORMAT = 1
"""Version of the folder's layout."""

UNWRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EEXIST)
"""A place that a folder cannot be made in, as told by the system."""


class RunFolder:
    """A run's folder; with ``path=None`` the same in memory, for a quick look from Python."""

    def __init__(self, path: Path | None):
        self.path = path
        self.lines: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {}

    @property
    def name(self) -> str:
        return str(self.path) if self.path else "this run"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder: a second run in it is refused. The lock dies with the process, however it dies."""
        if self.path is None:
            yield
            return
        lock = FileLock(self.path / "lock", timeout=0)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise InputError(f"{self.path} is in use by a run that is still going; wait for it") from None
        except OSError as problem:
            if problem.errno not in UNWRITABLE:
                raise
            reason = str(problem.strerror).lower()
            raise InputError(
                f"no run can be written to {self.path} ({reason}); choose another folder"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def start(self, spec: Spec, data: dict[str, Any]) -> None:
        """Begin: from here on the folder says what it is."""
        if self.path is not None:
            about = {"format": FORMAT, "unskew": __version__, "spec": spec.as_dict(), "data": data}
            write_atomically(self.path / "spec.json", json.dumps(about, indent=1))
        self.save({"status": "running"})

    def append(self, line: dict[str, Any]) -> None:
        self.lines.append(line)
        if self.path is not None:
            with open(self.path / "rounds.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")

    def sync(self) -> None:
        """Make what was appended durable."""
        if self.path is not None:
            with open(self.path / "rounds.jsonl", "a") as file:
                os.fsync(file.fileno())

    def save(self, result: dict[str, Any]) -> None:
        self.result = result
        if self.path is not None:
            write_atomically(self.path / "result.json", json.dumps(result, indent=1))

    def rewind(self, round: int) -> None:
        """Forget what was logged after this many rounds: the run goes on from there."""
        self.lines = [line for line in self.lines if line["round"] <= round]
        if self.path is not None:
            text = "".join(json.dumps(line) + "\n" for line in self.lines)
            write_atomically(self.path / "rounds.jsonl", text)


def read_folder(path: Path) -> tuple[RunFolder, Spec, dict[str, Any]]:
    """A run folder with its spec and what is known of its data, whatever state it is in."""
    file = path / "spec.json"
    if not file.is_file():
        raise InputError(f"{path} is not a run folder: it has no spec.json")
    try:
        about = json.loads(file.read_text())
        version, settings = about["format"], about["spec"].items()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(f"{file} is damaged: it is not the JSON of a run") from None
    if version != FORMAT:
        raise InputError(
            f"{path} has run format {version}, this version reads {FORMAT}; use the unskew that wrote it "
            f"({about.get('unskew', 'unknown')})"
        )
    spec = {k: tuple(v) if isinstance(v, list) else v for k, v in settings}
    folder = RunFolder(path)
    log = path / "rounds.jsonl"
    for text in log.read_text().splitlines() if log.is_file() else []:
        try:
            folder.lines.append(json.loads(text))
        except ValueError:
            break  # a kill in the middle of a line: what follows was never written
    outcome = path / "result.json"
    if outcome.is_file():
        try:
            folder.result = json.loads(outcome.read_text())
        except ValueError:
            raise InputError(f"{outcome} is damaged: it is not JSON") from None
    return folder, Spec.of(spec, str(file)), about.get("data", {})

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
from unskew.errors import InputError, RunFailed
from unskew.spec import Spec
from unskew.state import checkpoints, write_atomically

FORMAT = 1
"""Version of the folder's layout."""

UNWRITABLE = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.EISDIR,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)
"""A place that a folder cannot be made in, as told by the system."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""A disk that is full, or a user's share of it."""


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
        if (self.path / "lock").is_dir():
            raise InputError(f"{self.path / 'lock'} is a folder where a run needs a file; move it away")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except Timeout:
            raise InputError(f"{self.path} is in use by a run that is still going; wait for it") from None
        except OSError as problem:
            if problem.errno not in UNWRITABLE:
                raise
            begun = problem.errno != errno.ENAMETOOLONG and (self.path / "spec.json").exists()
            instead = "make it writable, or resume a copy of it" if begun else "choose another folder"
            raise InputError(f"no run can be written to {self.path} ({reason(problem)}); {instead}") from None
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """What the system says of this folder in the middle of a run, in one sentence."""
        try:
            yield
        except OSError as problem:
            if (sentence := self.complaint(problem)) is None:
                raise
            raise RunFailed(sentence) from problem

    def complaint(self, problem: BaseException) -> str | None:
        """One sentence where a failure is one of writing this folder, and None where it is not."""
        if not isinstance(problem, OSError):
            return None
        if problem.errno in FULL:
            return f"the disk of {self.name} is full{self._so_far()}"
        name = problem.filename2 or problem.filename
        file = Path(name) if isinstance(name, (str, Path)) else None
        if self.path is None or file is None or self.path not in (file, *file.parents):
            return None
        if not self.path.exists():
            return f"{self.path} was deleted while its run went on; start it again"
        return f"{file} cannot be written ({reason(problem)}); see to it, then `unskew resume {self.path}`"

    def _so_far(self) -> str:
        """What a run that has to stop leaves behind, and how it goes on."""
        if self.path is None or not (self.path / "spec.json").exists():
            return "; make room, then start it again"
        go_on = f"make room, then `unskew resume {self.path}`"
        if not self.lines:
            return f"; {go_on}"
        saved = checkpoints(self.path / "state")
        left = f"the checkpoint of round {saved[-1][0]} is whole" if saved else "there is no checkpoint yet"
        return f" after round {len(self.lines)}; {left}: {go_on}"

    def start(self, spec: Spec, data: dict[str, Any]) -> None:
        """Begin: from here on the folder says what it is."""
        if self.path is not None:
            about = {"format": FORMAT, "unskew": __version__, "spec": spec.as_dict(), "data": data}
            write_atomically(self.path / "spec.json", json.dumps(about, indent=1))
        self.save({"status": "running"})

    def append(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with open(self.path / "rounds.jsonl", "a") as file:
                file.write(json.dumps(line) + "\n")
        self.lines.append(line)

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

    def read(self) -> None:
        """What the files tell: the first rounds whose lines are whole, and the result where it is one.

        What is damaged counts as not known, since a run that goes on makes it again.
        """
        assert self.path is not None
        self.lines, self.result = [], {}
        for text in _content(self.path / "rounds.jsonl").splitlines():
            if not text.strip():
                continue
            line = _object(text)
            if line.get("round") == len(self.lines) + 1:
                self.lines.append(line)
            elif line not in self.lines[-1:]:  # one written twice is known already
                break
        result = _object(_content(self.path / "result.json"))
        if isinstance(result.get("status"), str):
            self.result = result

    @property
    def is_done(self) -> bool:
        """Whether the run ended and its result has what every result has."""
        return self.result.get("status") == "done" and {"best", "final", "totals"} <= set(self.result)

    def check_kinds(self) -> None:
        """Refuse a folder where a run would write a file, and the other way around, before it is in the way."""
        assert self.path is not None
        for name in ("rounds.jsonl", "result.json", "partition.npz"):
            if (self.path / name).is_dir():
                raise InputError(f"{self.path / name} is a folder where a run needs a file; move it away")
        state = self.path / "state"
        if state.exists() and not state.is_dir():
            raise InputError(f"{state} is a file where a run needs a folder; move it away")


def _content(file: Path) -> bytes:
    """A file's bytes; none where there is no such file."""
    if not file.is_file():
        return b""
    try:
        return file.read_bytes()
    except OSError as problem:
        raise InputError(f"cannot read {file} ({reason(problem)}); make it readable") from None


def _object(text: bytes) -> dict[str, Any]:
    """The JSON object that this is; an empty one where it is none."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def reason(problem: OSError) -> str:
    """What the system says, to be put into a sentence."""
    return str(problem.strerror).lower()


def read_folder(path: Path) -> tuple[RunFolder, Spec, dict[str, Any]]:
    """A run folder with its spec and what is known of its data, whatever state it is in."""
    file = path / "spec.json"
    try:
        if not file.is_file():
            raise InputError(f"{path} is not a run folder: it has no spec.json")
    except OSError as problem:
        raise InputError(f"cannot read {path} ({reason(problem)}); name a run's folder") from None
    about = _object(_content(file))
    settings, data = about.get("spec"), about.get("data", {})
    if "format" not in about or not isinstance(settings, dict) or not isinstance(data, dict):
        raise InputError(f"{file} is damaged: it is not the JSON of a run")
    if about["format"] != FORMAT:
        raise InputError(
            f"{path} has run format {about['format']}, this version reads {FORMAT}; use the unskew that wrote it "
            f"({about.get('unskew', 'unknown')})"
        )
    spec = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
    folder = RunFolder(path)
    folder.read()
    return folder, Spec.of(spec, str(file)), data

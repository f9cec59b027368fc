"""The run folder: what a run was asked for, what happened, what came out; readable from the first second.

spec.json      re-creates the run alone
rounds.jsonl   one object a round, written as it goes
state/         checkpoints, the last two
partition.npz  who holds which samples
model.json     what the model is and what it takes; model.safetensors: the weights at the end (model_files.py)
result.json    status (running, then done or failed), the numbers, the costs

Every JSON object carries a checksum (``sealed.py``), and what does not fit its own counts as not known.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from unskew.core.checkpoint_files import checkpoints
from unskew.errors import InputError, RunFailed
from unskew.files import write_file
from unskew.runs.spec import Spec
from unskew.sealed import seal, unseal
from unskew.version import __version__

FORMAT = 2
"""Version of the folder's layout."""

UNSEALED = 1
"""The version before, without checksums: it is read and resumed as it is."""

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


@dataclass(frozen=True)
class Damage:
    """What of a run's log and result was changed or lost behind its back. Rounds are spans (first, last)."""

    damaged: tuple[tuple[int, int], ...] = ()  # something is there, but it is not what was written
    missing: tuple[tuple[int, int], ...] = ()
    result: bool = False

    def __bool__(self) -> bool:
        return bool(self.damaged or self.missing or self.result)

    def __str__(self) -> str:
        """rounds 3 and 5 to 7 are damaged, round 9 is missing, result.json is damaged."""
        said = [
            f"{_rounds(spans)} {how}"
            for spans, how in ((self.damaged, "damaged"), (self.missing, "missing"))
            if spans
        ]
        return ", ".join(said + (["result.json is damaged"] if self.result else []))


def _rounds(spans: tuple[tuple[int, int], ...]) -> str:
    if len(spans) == 1 and spans[0][0] == spans[0][1]:
        return f"round {spans[0][0]} is"
    said = [str(first) if first == last else f"{first} to {last}" for first, last in spans[:5]]
    if len(spans) > 5:
        said.append(f"{len(spans) - 5} stretches more")
    return "rounds " + (f"{', '.join(said[:-1])} and " if len(said) > 1 else "") + f"{said[-1]} are"


class RunFolder:
    """A run's folder; with ``path=None`` the same in memory, for a quick look from Python.

    ``lines`` are the first rounds, as many as are known without a gap: a resume goes on from one of them.
    ``beyond`` are later ones, after a gap, which only a report looks at. Of folders without checksums (``sealed`` is
    False) every line that reads well is believed. No run has more than ``rounds``.
    """

    def __init__(self, path: Path | None, sealed: bool = True, rounds: int | None = None):
        self.path, self.sealed, self.rounds = path, sealed, rounds
        self.lines: list[dict[str, Any]] = []
        self.beyond: list[dict[str, Any]] = []
        self.result: dict[str, Any] = {}
        self.damage = Damage()

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
            write_file(self.path / "spec.json", seal(about, indent=1))
        self.save({"status": "running"})

    def append(self, line: dict[str, Any]) -> None:
        if self.path is not None:
            with open(self.path / "rounds.jsonl", "a") as file:
                file.write(seal(line) + "\n")
        self.lines.append(line)

    def sync(self) -> None:
        """Make what was appended durable."""
        if self.path is not None:
            with open(self.path / "rounds.jsonl", "a") as file:
                os.fsync(file.fileno())

    def save(self, result: dict[str, Any]) -> None:
        self.result = result
        if self.path is not None:
            write_file(self.path / "result.json", seal(result, indent=1))

    def replace_last(self, line: dict[str, Any]) -> None:
        """Write the last line anew."""
        self.lines[-1] = line
        self.rewind(line["round"])

    def rewind(self, round: int) -> None:
        """Forget what was logged after this many rounds: the run goes on from there."""
        self.lines = [line for line in self.lines if line["round"] <= round]
        self.beyond, self.damage = [], Damage()
        if self.path is not None:
            text = "".join(seal(line) + "\n" for line in self.lines)
            write_file(self.path / "rounds.jsonl", text)

    def read(self) -> None:
        """What the files tell: the rounds whose lines are whole, and the result where it is one.

        What is damaged counts as not known, since a run that goes on makes it again.
        """
        assert self.path is not None
        # in this order: a run that is going on logs a round before it saves it, and its result comes last
        content = _content(self.path / "result.json")
        result = unseal(content, self.sealed)
        self.result = result if result is not None and isinstance(result.get("status"), str) else {}
        saved = checkpoints(self.path / "state")
        held, broken = self._log()
        played = max([*held, self._ended() or (saved[-1][0] if saved else 0)], default=0)
        damaged: list[tuple[int, int]] = []
        missing: list[tuple[int, int]] = []
        at = 0
        for round in (*sorted(held), played + 1):
            if round > at + 1:
                (damaged if at in broken else missing).append((at + 1, round - 1))
            at = round
        last = max(held, default=0)
        if last == played and last in broken and self._ended() is None:
            damaged.append((last + 1, last + broken[last]))
        self.damage = Damage(tuple(damaged), tuple(missing), bool(content) and not self.result)
        lines = [held[round] for round in sorted(held)]
        whole = next((n for n, line in enumerate(lines) if line["round"] != n + 1), len(lines))
        self.lines, self.beyond = lines[:whole], lines[whole:]

    def _log(self) -> tuple[dict[int, dict[str, Any]], Counter[int]]:
        """The rounds whose lines are whole, and how many lines after which of them are not."""
        assert self.path is not None
        held: dict[int, dict[str, Any]] = {}
        broken: Counter[int] = Counter()
        differ, last = set(), 0
        content = _content(self.path / "rounds.jsonl")
        for text in content.splitlines(keepends=True):
            if not text.strip():
                continue
            line = unseal(text, self.sealed) or {}
            round = line.get("round")
            if type(round) is not int or round < 1 or (self.rounds is not None and round > self.rounds):
                if text.endswith((b"\n", b"\r")) or self._ended() is not None:
                    broken[last] += 1  # else a kill, or nobody yet, has ended it
            elif round not in held:
                held[round] = line
                last = round
            elif json.dumps(held[round]) != json.dumps(line):
                differ.add(round)
        for round in differ:  # nobody can say which of the two was written
            broken[max((r for r in held if r < round), default=0)] += 1
            del held[round]
        return held, broken

    def _ended(self) -> int | None:
        """The last round of a run that is done, as its result says."""
        rounds = self.result.get("rounds")
        return rounds if self.result.get("status") == "done" and type(rounds) is int else None

    @property
    def is_done(self) -> bool:
        """Whether the run ended and its result has what every result has."""
        return self.result.get("status") == "done" and {"best", "final", "totals"} <= set(self.result)

    def check_kinds(self) -> None:
        """Refuse a folder where a run would write a file, and the other way around, before it is in the way."""
        assert self.path is not None
        for name in ("rounds.jsonl", "result.json", "partition.npz", "model.json", "model.safetensors"):
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
    content = _content(file)
    about = _object(content)
    settings, data = about.get("spec"), about.get("data", {})
    if "format" not in about or not isinstance(settings, dict) or not isinstance(data, dict):
        raise InputError(f"{file} is damaged: it is not the JSON of a run")
    if about["format"] not in (UNSEALED, FORMAT):
        raise InputError(
            f"{path} has run format {about['format']}, this version reads {FORMAT}; use the unskew that wrote it "
            f"({about.get('unskew', 'unknown')})"
        )
    is_sealed = about["format"] == FORMAT
    if unseal(content, is_sealed) is None:
        raise InputError(
            f"{file} is damaged: its content does not fit its checksum, so nobody knows what was run; put a whole "
            "copy in its place, or run it again in another folder"
        )
    spec = Spec.of({k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}, str(file))
    folder = RunFolder(path, is_sealed, spec.rounds)
    folder.read()
    return folder, spec, data


def check_folder(path: Path) -> None:
    """Refuse a folder that a new run cannot have."""
    try:
        if (path / "spec.json").exists():
            status = read_folder(path)[0].result.get("status", "running")
            hint = "choose another folder" if status == "done" else f"go on with it by `unskew resume {path}`"
            raise InputError(f"{path} already holds a run ({status}); {hint}")
        if path.exists() and not path.is_dir():
            raise InputError(f"{path} is a file; name a folder for the run")
        if path.is_dir() and any(p.name != "lock" for p in path.iterdir()):
            raise InputError(f"{path} is not empty and holds no run; choose another folder")
    except OSError as problem:
        raise InputError(
            f"no run can be written to {path} ({reason(problem)}); choose another folder"
        ) from None

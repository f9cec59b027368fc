"""All runs of a folder, kept up to date: what has not changed since the last look is not read again.

A run is told by its small files alone, so a thousand open at once; its curve is read when it is to be drawn.
"""

from __future__ import annotations

import json
import math
import os
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unskew.readings import Reading
from unskew.report.results.gather import is_alive, natural_key
from unskew.runs.folder import FORMAT, UNSEALED
from unskew.runs.judged_by import chosen
from unskew.runs.spec import Spec
from unskew.sealed import CHECKSUM, unseal

LOOK_EVERY = 0.7
"""Seconds in which the folder is looked through at most once, however many pages ask."""

TAIL = 65_536
"""Bytes of a log's end that are read for its last rounds."""

MOST_SETTING = 200  # letters of a setting that a list shows
SPARK_POINTS = 48


@dataclass
class Entry:
    """One run: what its row shows, and by what we know that its files have not changed."""

    row: dict[str, Any]
    seals: tuple[Any, ...]
    version: int
    about: dict[str, Any] = field(default_factory=dict)
    spark: tuple[Any, list[float]] | None = None


class RunIndex:
    """Every run below a folder. Pages ask for what changed since the version they have."""

    def __init__(self, folder: Path):
        self.folder = folder.resolve()
        self.entries: dict[str, Entry] = {}
        self.gone: dict[str, int] = {}
        self.version = 0
        self._looked = -math.inf
        self._lock = threading.Lock()

    def changes(self, since: int) -> dict[str, Any]:
        """The rows that are new since a version, and the names that are gone."""
        with self._lock:
            self._look()
            if since > self.version:
                since = 0  # a page that was open before the studio was started again
            rows = [entry.row for entry in self.entries.values() if entry.version > since]
            gone = [name for name, version in self.gone.items() if version > since and since]
            return {"version": self.version, "rows": rows, "gone": gone, "all": since == 0}

    def find(self, name: str) -> Entry | None:
        """A run by its name, as it is now."""
        with self._lock:
            self._look()
            return self.entries.get(name)

    def names(self) -> list[str]:
        with self._lock:
            self._look()
            return sorted(self.entries, key=natural_key)

    def sparks(self, names: Sequence[str]) -> dict[str, list[float]]:
        """The curves of some runs, a few points each."""
        found = {}
        for name in names:
            with self._lock:
                entry = self.entries.get(name)
            if entry is not None:
                log = self.folder / name / "rounds.jsonl"
                seal = _seal(log)
                if entry.spark is None or entry.spark[0] != seal:
                    entry.spark = (seal, curve(log, entry.row["key"]))
                found[name] = entry.spark[1]
        return found

    def _look(self) -> None:
        if time.monotonic() - self._looked < LOOK_EVERY:
            return
        seen = set()
        changed: dict[str, Entry] = {}
        for name in run_names(self.folder):
            seen.add(name)
            old = self.entries.get(name)
            new = look_at(self.folder, name, old)
            if new is not old:
                changed[name] = new
        lost = set(self.entries) - seen
        if changed or lost:
            self.version += 1
            for name in lost:
                del self.entries[name]
                self.gone[name] = self.version
            for name, entry in changed.items():
                entry.version = self.version
                self.entries[name] = entry
                self.gone.pop(name, None)
        self._looked = time.monotonic()


def run_names(folder: Path) -> list[str]:
    """Folders with a spec.json below a folder, by their paths from there. Links are not followed: they may lead out."""
    found: list[str] = []
    ahead = [""]
    while ahead:
        at = ahead.pop()
        try:
            with os.scandir(folder / at) as entries:
                for entry in entries:
                    if entry.name == "spec.json" and entry.is_file(follow_symlinks=False):
                        found.append(at or ".")
                    elif (
                        not entry.name.startswith(".")
                        and entry.name != "state"
                        and entry.is_dir(follow_symlinks=False)
                    ):
                        ahead.append(f"{at}/{entry.name}" if at else entry.name)
        except OSError:
            continue  # deleted meanwhile, or not ours to read
    return found


def look_at(folder: Path, name: str, old: Entry | None) -> Entry:
    """A run as it is now; the same entry where nothing has changed."""
    path = folder / name
    seals = tuple(_seal(path / file) for file in ("spec.json", "result.json", "rounds.jsonl"))
    if old is not None and old.seals[:3] == seals:
        if old.row["status"] != "running":
            return old
        alive = is_alive(path)
        if alive:
            return old
    about, whole = _object(_read(path / "spec.json"))
    row: dict[str, Any] = {"name": name, "key": "global_test_accuracy", "settings": {}, "round": 0}
    problem = _unreadable(about, whole)
    if problem:
        row |= {"status": "damaged", "problem": problem}
        if isinstance(about.get("spec"), dict):
            row["settings"] = _shown(about["spec"])
        return Entry(row, seals, 0)
    spec, data = about["spec"], about.get("data") or {}
    row["settings"], row["rounds"] = _shown(spec), spec.get("rounds")
    metric = _metric(spec, data)
    row |= {"key": metric.key, "metric": metric.title, "percent": metric.percent}
    if spec.get("method_label"):
        row["label"] = str(spec["method_label"])
    content = _read(path / "result.json")
    result = unseal(content, about["format"] == FORMAT) or {}
    status = result.get("status", "running")
    lines = last_lines(path / "rounds.jsonl", about["format"] == FORMAT, 1 if status == "done" else 8)
    if lines:
        row["round"] = lines[-1]["round"]
        judged = [value for line in lines if (value := metric.of_line(line)) is not None]
        row["value"] = judged[-1] if judged else None
    if content and not result:
        row["problem"] = "result.json is damaged"
    if status == "running":
        if is_alive(path):
            seconds = [line["wall_s"] for line in lines[-5:] if isinstance(line.get("wall_s"), (int, float))]
            if seconds and isinstance(spec.get("rounds"), int):
                row["left"] = (spec["rounds"] - row["round"]) * sum(seconds) / len(seconds)
        else:
            status = "interrupted"
    elif status == "failed":
        row["problem"] = str(result.get("error", "it failed"))
    elif status == "done":
        final, best = result.get("final") or {}, result.get("best") or {}
        row["value"] = _number(final.get(metric.name), row.get("value"))
        row["best"] = _number(best.get(metric.name), None)
        row["took"] = _number((result.get("totals") or {}).get("wall_s"), None)
        if result.get("stopped"):
            row["stopped"] = True
    row["status"] = status if status in ("done", "failed", "running", "interrupted") else "damaged"
    row["changed"] = max((seal[0] for seal in seals if seal), default=0) / 1e9
    return Entry(row, seals, 0, {"spec": spec, "data": data, "result": result, "format": about["format"]})


def last_lines(log: Path, sealed: bool, most: int) -> list[dict[str, Any]]:
    """The last rounds of a log, as many as its end holds; a line that is being written is left for later."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            content = file.read(TAIL)
    except OSError:
        return []
    pieces = content.split(b"\n")[:-1]
    lines = (unseal(piece, sealed) for piece in (pieces if size <= TAIL else pieces[1:])[-most:])
    return [line for line in lines if line and type(line.get("round")) is int]


def curve(log: Path, key: str) -> list[float]:
    """A metric over the rounds of a log in a few points, taken from its text: a list of runs needs no more."""
    try:
        content = log.read_bytes()
    except OSError:
        return []
    found = re.findall(rb'"' + re.escape(key.encode()) + rb'": (-?[0-9][0-9.eE+-]*)', content)
    values = [float(text) for text in found]
    step = max(1, math.ceil(len(values) / SPARK_POINTS))
    picked = values[::step]
    return [round(value, 4) for value in (picked if (len(values) - 1) % step == 0 else [*picked, values[-1]])]


def _unreadable(about: dict[str, Any], whole: bool) -> str:
    if not about:
        return "spec.json is damaged: it is not the JSON of a run"
    if about.get("format") not in (UNSEALED, FORMAT):
        return (
            f"it has run format {about.get('format')}, this version reads {FORMAT}; use the unskew that wrote it "
            f"({about.get('unskew', 'unknown')})"
        )
    if not isinstance(about.get("spec"), dict) or not isinstance(about.get("data", {}), dict):
        return "spec.json is damaged: it is not the JSON of a run"
    if not whole and (about["format"] == FORMAT or CHECKSUM in about):
        return "spec.json is damaged: its content does not fit its checksum"
    return ""


def _metric(spec: dict[str, Any], data: dict[str, Any]) -> Reading:
    names = spec.get("metrics")
    wanted = [str(name) for name in names] if isinstance(names, list) else []
    return chosen(wanted, data)[0]


def _shown(spec: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from their defaults, short enough for a list."""
    return {
        str(name): value if isinstance(value, (int, float, bool)) else str(value)[:MOST_SETTING]
        for name, value in spec.items()
        if value is not None and value != [] and value != DEFAULTS.get(str(name))
    }


def _number(value: Any, otherwise: Any) -> Any:
    return value if isinstance(value, (int, float)) and math.isfinite(value) else otherwise


def _seal(file: Path) -> tuple[int, int, int] | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size, about.st_ino


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _object(content: bytes) -> tuple[dict[str, Any], bool]:
    """A JSON object, and whether it is sealed and whole; an empty one where it is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}, False
    if not isinstance(found, dict):
        return {}, False
    return found, unseal(content, required=True) is not None


DEFAULTS = Spec().as_dict()

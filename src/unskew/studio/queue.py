"""Runs and sweeps that were started from the studio: the command line's own, one after the other on this machine.

A run is a process of its own. It goes on when the studio ends, and so does the queue when a studio is opened again: it
stands in ``.studio`` in the folder, as experiment files and a list.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from unskew.errors import InputError
from unskew.files import write_file
from unskew.runs.experiment_file import read_toml
from unskew.runs.folder import check_folder
from unskew.runs.spec import Spec
from unskew.studio.security import inside

LOOK_EVERY = 0.3
KEPT = 20
"""Jobs that are over and still listed."""

Kind = Literal["run", "sweep", "resume"]


@dataclass
class Job:
    """Something that was asked for; ``name`` is its place in the folder."""

    id: str
    kind: Kind
    name: str
    status: str = "waiting"  # then running; ended, stopped or failed
    pid: int = 0
    problem: str = ""
    stopping: bool = False  # it was asked to end, and saves

    @property
    def is_over(self) -> bool:
        return self.status in ("ended", "stopped", "failed")


class RunQueue:
    """What is to be run and what runs, ``at_once`` at a time; the cores are shared among them."""

    def __init__(self, folder: Path, read_only: bool = False):
        self.folder, self.place = folder.resolve(), folder.resolve() / ".studio"
        self.cores = os.cpu_count() or 1
        self.at_once = 1
        self.jobs: list[Job] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ended = False
        self.read_only = read_only
        self._read()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="the studio's queue")
        self._thread.start()

    def told(self) -> dict[str, Any]:
        """The queue as a page shows it."""
        with self._lock:
            return {"at_once": self.at_once, "cores": self.cores, "jobs": [asdict(job) for job in self.jobs]}

    def add(self, name: str, toml: str) -> Job:
        """Queue an experiment file under a name of its own: a run, or a sweep where it has a table of that name."""
        place = self._named(name)
        id = secrets.token_hex(4)
        self.place.mkdir(exist_ok=True)
        file = self.place / f"{id}.toml"
        write_file(file, toml if toml.endswith("\n") else toml + "\n")
        try:
            settings, sweep = read_toml(file)
            Spec.of(settings)
        except InputError as problem:
            file.unlink(missing_ok=True)
            raise InputError(str(problem).replace(str(file), "the experiment")) from None
        job = Job(id, "sweep" if sweep else "run", place.relative_to(self.folder).as_posix())
        return self._queue(job)

    def resume(self, name: str) -> Job:
        """Queue a run or a sweep that was stopped, to go on."""
        place = inside(self.folder, name)
        if (sweep := self._stopped_sweep(name)) is not None:
            return sweep
        if not (place / "spec.json").is_file():
            raise InputError(f"there is no run {name!r} to go on with")
        with self._lock:
            if any(job.name == name and not job.is_over and not job.stopping for job in self.jobs):
                raise InputError(f"{name!r} is in the queue already")
        return self._queue(Job(secrets.token_hex(4), "resume", name))

    def _stopped_sweep(self, name: str) -> Job | None:
        """A sweep of this name that is over waits again, with the same file: what is done in it is skipped."""
        with self._lock:
            own = [job for job in self.jobs if job.name == name and job.kind == "sweep"]
            if not own or not own[-1].is_over or not (self.place / f"{own[-1].id}.toml").is_file():
                return None
            own[-1].status, own[-1].pid, own[-1].problem, own[-1].stopping = "waiting", 0, "", False
            self._write()
        self._wake.set()
        return own[-1]

    def stop(self, name: str) -> Job:
        """End a run that was started here: it saves what it has, and can be resumed. One that waits is taken out."""
        with self._lock:
            own = [job for job in self.jobs if job.name == name and not job.is_over]
            job = next((job for job in own if not job.stopping), own[0] if own else None)
            if job is None:  # a run of a sweep is stopped with its sweep
                above = [job for job in self.jobs if not job.is_over and name.startswith(job.name + "/")]
                if not above:
                    raise InputError(
                        f"{name!r} was not started from this studio; stop it where it runs, with Ctrl-C"
                    )
                job = above[0]
            if job.status == "waiting":
                job.status = "stopped"
            elif job.pid and is_ours(job):
                os.kill(job.pid, signal.SIGTERM)
                job.stopping = True
            self._write()
            return job

    def set_at_once(self, number: int) -> None:
        if not 1 <= number <= self.cores:
            raise InputError(f"runs at a time are a number from 1 to {self.cores}, the cores of this machine")
        with self._lock:
            self.at_once = number
        self._wake.set()

    def forget(self) -> None:
        """Take what is over off the list."""
        with self._lock:
            self.jobs = [job for job in self.jobs if not job.is_over]
            self._write()

    def close(self) -> None:
        """Look no more; what runs goes on."""
        self._ended = True
        self._wake.set()
        self._thread.join(5)

    def _named(self, name: str) -> Path:
        if not re.fullmatch(r"[^\s./\\-][^/\\\x00-\x1f]{0,80}(/[^\s./\\-][^/\\\x00-\x1f]{0,80}){0,3}", name):
            raise InputError(f"{name!r} is no name for a run's folder; write one such as fedavg-first")
        place = inside(self.folder, name)
        with self._lock:
            if any(job.name == name and not job.is_over for job in self.jobs):
                raise InputError(f"{name!r} is in the queue already; choose another name")
        if place.is_dir() and any(place.iterdir()):
            check_folder(place)
        return place

    def _queue(self, job: Job) -> Job:
        with self._lock:
            self.jobs.append(job)
            self._write()
        self._wake.set()
        return job

    def _watch(self) -> None:
        while not self._ended:
            with self._lock:
                busy = self._step()
            self._wake.wait(LOOK_EVERY if busy else 5.0)
            self._wake.clear()

    def _step(self) -> bool:
        """Notice what has ended, start what there is room for; whether anything runs."""
        changed = False
        for job in self.jobs:
            if job.status == "running" and self._has_ended(job):
                changed = True
        running = sum(job.status == "running" for job in self.jobs)
        for job in self.jobs:
            if job.status == "waiting" and running < self.at_once and not self.read_only:
                if any(other.name == job.name and other.status == "running" for other in self.jobs):
                    continue  # it still saves
                self._start(job)
                running += job.status == "running"
                changed = True
        if changed:
            over = [job for job in self.jobs if job.is_over]
            for job in over[: max(0, len(over) - KEPT)]:
                self.jobs.remove(job)
            self._write()
        return bool(running)

    def _start(self, job: Job) -> None:
        words = [sys.executable, "-m", "unskew", job.kind]
        share = str(max(1, self.cores // self.at_once))
        where = str(self.folder / job.name)
        if job.kind == "resume":
            words += [where, "--workers", share]
        else:
            words += [str(self.place / f"{job.id}.toml"), "--out", where]
            words += ["--workers", share] if job.kind == "run" else ["--processes", share]
        try:
            with (self.place / f"{job.id}.log").open("wb") as log:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
                )
        except OSError as problem:
            job.status, job.problem = "failed", f"it could not be started: {problem.strerror}"
            return
        self._processes[job.id] = process
        job.status, job.pid = "running", process.pid

    def _has_ended(self, job: Job) -> bool:
        process = self._processes.get(job.id)
        if process is None:  # of a studio before this one
            if is_ours(job):
                return False
            job.status = "ended"
        else:
            code = process.poll()
            if code is None:
                return False
            del self._processes[job.id]
            status = {0: "ended", 130: "stopped", -signal.SIGTERM: "stopped"}.get(code, "failed")
            if status == "failed":
                job.problem = last_words(self.place / f"{job.id}.log") or f"it ended with code {code}"
            job.status = status  # last: a page that asks meanwhile is told why, too
        if job.status == "ended":
            (self.place / f"{job.id}.log").unlink(missing_ok=True)
        return True

    def _read(self) -> None:
        try:
            found = json.loads((self.place / "queue.json").read_bytes())
            self.jobs = [Job(**job) for job in found["jobs"]]
        except (OSError, ValueError, TypeError, KeyError):
            self.jobs = []  # none, or one that nobody can read

    def _write(self) -> None:
        if self.read_only:
            return
        self.place.mkdir(exist_ok=True)
        write_file(
            self.place / "queue.json", json.dumps({"jobs": [asdict(job) for job in self.jobs]}, indent=1)
        )


def is_ours(job: Job) -> bool:
    """Whether the process of this number is still this job's: numbers are given out again."""
    words = Path(f"/proc/{job.pid}/cmdline")
    if not words.parent.parent.is_dir() or not Path("/proc/self").exists():
        try:
            os.kill(job.pid, 0)
        except OSError:
            return False
        return True
    try:
        said = words.read_bytes().split(b"\0")
    except OSError:
        return False
    return b"unskew" in said and job.kind.encode() in said


def last_words(log: Path) -> str:
    """The sentence with which a command failed."""
    try:
        text = log.read_text("utf-8", "replace")[-4000:]
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in reversed(lines) if line.startswith("error:")), lines[-1] if lines else "")

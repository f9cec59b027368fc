"""Peers as contenders: each in an environment and a process of its own, speaking lines of JSON.

An adapter (``benchmarks/peers/<name>.py`` of the source tree) is sent a job and then one line per round with the
clients to train; it answers with the seconds the round took and the samples it trained on. So a peer's rounds can
be timed in turn with ours, and nothing of it is imported here. A peer that is not playing is stopped: some poll, and
would take from the others' time.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from unskew.bench.jobs import CLASSES, StandardJob
from unskew.bench.options import PEERS, Options
from unskew.core.types import Ids
from unskew.machine.cores import cores

PATIENCE = 600.0
"""Seconds to wait for a peer's answer."""

TENTH = 10
"""A trial of how many threads suit a peer takes this part of a round's clients."""


class PeerFailed(Exception):
    """A peer that is not there or does not answer, in one sentence; the others go on."""


def source_tree() -> Path | None:
    """The checkout this package runs from, which holds the adapters; None where it was installed without."""
    root = Path(__file__).resolve().parents[3]
    return root if (root / "benchmarks" / "peers").is_dir() else None


def interpreter(name: str, root: Path) -> Path:
    """The Python that runs a peer."""
    if name == "plain":
        return Path(sys.executable)
    folder = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    python = root / ".venv-peers" / name / folder
    if not (python.parents[1] / ".ready").exists():
        if name == "flower" and all(find_spec(needed) for needed in ("flwr", "ray")):
            return Path(sys.executable)  # what unskew's extras bring is all that it needs
        raise PeerFailed(f"not installed; `make .venv-peers/{name}/.ready` installs it")
    return python


class Peer:
    """One adapter process."""

    def __init__(self, name: str, python: Path, root: Path):
        self.name, self.about = name, PEERS[name]
        self.threads: int | None = None  # of torch, in the peer's process; not known before a trial
        self.complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  read when something goes wrong
        # some write logs and caches, under the working folder or the system's folder for such: all goes with this one
        self.scratch = tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [python, "-m", f"benchmarks.peers.{name}"],
            cwd=self.scratch.name,
            env=os.environ | {"PYTHONPATH": str(root), "TMPDIR": self.scratch.name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            bufsize=0,
            start_new_session=True,  # so that all its processes can be ended together
        )

    @classmethod
    def ready(cls, name: str, job: StandardJob, options: Options) -> Peer:
        """Start a peer and have it prepare the job."""
        root = source_tree()
        if root is None:
            raise PeerFailed("peers need the source tree: run `unskew bench --peers` in a checkout")
        peer = cls(name, interpreter(name, root), root)
        wanted = {k: v for k, v in asdict(job).items() if k not in ("title", "alpha")}
        wanted |= {"classes": CLASSES, "sizes": job.sizes.tolist(), "workers": options.workers or cores()}
        try:
            answer = peer.asked(wanted)
            peer.about, peer.threads = answer["ready"], None if answer["threaded"] else 1
        except BaseException:  # an interrupt, too, must not leave its processes behind
            peer.close()
            raise
        return peer

    def round(self, clients: Ids | None) -> tuple[float, int]:
        """Play a round; the first, which is not counted, begins with finding how many threads suit the peer."""
        assert clients is not None  # our engines play first
        if self.threads is None:
            some = clients[: max(1, len(clients) // TENTH)]
            self._play(some, 1)
            tried: dict[int, list[float]] = {1: [], cores(): []}
            for _ in range(3):
                for n, times in tried.items():
                    times.append(self._play(some, n)[0])
            self.threads = min(tried, key=lambda n: statistics.median(tried[n]))
            self.about += f", {self.threads} thread{'s' if self.threads > 1 else ''}"
        return self._play(clients, self.threads)

    def _play(self, clients: Ids, threads: int) -> tuple[float, int]:
        answer = self.asked({"clients": clients.tolist(), "threads": threads})
        return float(answer["seconds"]), int(answer["samples"])

    def asked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Send a line, wait for a line; the peer runs only meanwhile."""
        assert self.process.stdin is not None
        self._signal("SIGCONT")
        with contextlib.suppress(OSError):  # it has died: reading says so, and why
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        line = self._line()
        self._signal("SIGSTOP")
        try:
            return dict(json.loads(line))
        except ValueError:
            raise PeerFailed(f"stopped: {self._last_words()}") from None

    def close(self) -> None:
        self._signal("SIGKILL")
        self.process.kill()
        self.process.wait()
        self.complaints.close()
        self.scratch.cleanup()

    def _signal(self, name: str) -> None:
        """To all processes of the peer, where the system has such signals."""
        if hasattr(signal, name):
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, getattr(signal, name))

    def _line(self) -> bytes:
        assert self.process.stdout is not None
        line = b""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not waiting.select(PATIENCE):
                    raise PeerFailed(f"gave no answer in {PATIENCE:.0f} s")
                piece = self.process.stdout.read(65536)
                if not piece:
                    return line
                line += piece
        return line

    def _last_words(self) -> str:
        self.complaints.seek(0)
        said = [line.strip() for line in self.complaints.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(said) if line), f"exit code {self.process.poll()}")

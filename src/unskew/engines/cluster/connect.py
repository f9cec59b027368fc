"""To a Ray cluster and back: one that is there, or one of our own on this machine that ends when this process does."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.errors import InputError, one_line

OLDEST = (2, 50)
"""The oldest Ray that this is tried with."""

PATIENCE = 5.0
"""Seconds for which an address may not answer."""

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_worker_niceness": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_enable_metrics_collection": "0",
}
"""Nothing is sent to Ray's makers, no notice of theirs is printed, and a local Ray keeps no record of every call for a
dashboard that nobody opens. Its actors have our priority: Ray would give them the lowest, and on a busy machine they
would hardly run."""

PREFIX = "unskew-ray-"


def load_ray() -> Any:
    """Ray itself; where it is missing or too old, a sentence says what to install."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise InputError(
            "Ray is not installed, and engine = ray and --on ray need it; write pip install 'unskew[ray]'"
        ) from None
    found = tuple(int(part) for part in ray.__version__.split(".")[:2] if part.isdigit())
    if found < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise InputError(
            f"Ray {ray.__version__} is installed, and unskew needs {oldest} or newer; "
            "write pip install -U 'unskew[ray]'"
        )
    return ray


def check_address(address: str | None) -> None:
    """Refuse an address at which nothing answers, before anything is started."""
    load_ray()
    if address in (None, "auto", "local"):
        return
    assert address is not None
    if "://" in address:
        raise InputError(
            f"ray = {address} is an address for Ray's client; run on a node of the cluster and write ray = auto"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or not host:
        raise InputError(f"ray = {address!r} is no address; write host:port, such as 10.0.0.1:6379, or auto")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE).close()
    except (OSError, OverflowError) as problem:
        raise InputError(
            f"no Ray cluster answers at {address} ({problem}); check the address, or write ray = auto "
            "on one of its nodes"
        ) from None


@dataclass
class Connection:
    """This process's connection to a cluster."""

    ray: Any
    ours: bool  # whether it is ours to end
    guard: subprocess.Popen[bytes] | None = None  # who ends a cluster of our own with this process

    def close(self) -> None:
        """Leave the cluster; one of our own ends, and its files go."""
        if self.ours:
            with _own_signals():
                self.ray.shutdown()
        if self.guard is not None:
            _end(self.guard)


def connect(address: str | None, cpus: int) -> Connection:
    """Connect to the cluster at an address (``auto``: the one that runs here), or start one with so many cores."""
    check_address(address)
    ray = load_ray()
    if ray.is_initialized():  # the user's own, or another run of this process: it is theirs to end
        _check_same(ray.get_runtime_context().gcs_address, address)
        return Connection(ray, ours=False)
    how: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    guard = None
    if address in (None, "local"):
        folder = _fresh_folder()
        guard = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("guard.py")), str(folder), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        how |= {"address": "local", "num_cpus": cpus, "include_dashboard": False, "_temp_dir": str(folder)}
    else:
        how["address"] = address
    try:
        with _own_signals():
            ray.init(**how)
            _hush(ray)
    except BaseException as problem:
        with contextlib.suppress(Exception):
            ray.shutdown()
        if guard is not None:
            _end(guard)
        if isinstance(
            problem, (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError, AssertionError)
        ):
            raise InputError(_refusal(address, str(problem))) from None
        raise
    return Connection(ray, True, guard)


def _check_same(joined: str, wanted: str | None) -> None:
    """Refuse an address where this process is part of another cluster: it can be part of one only."""
    if wanted in (None, "auto", "local"):
        return
    assert wanted is not None
    places = []
    for place in (joined, wanted):
        host, _, port = place.rpartition(":")
        with contextlib.suppress(OSError):
            host = socket.gethostbyname(host.strip("[]"))
        places.append((host, port))
    if places[0] != places[1]:
        raise InputError(
            f"this process has joined the Ray cluster at {joined}, and ray = {wanted} asks for another; call "
            "ray.shutdown() first, or write ray = auto to stay"
        )


def _end(guard: subprocess.Popen[bytes]) -> None:
    """Have the guard clean up, and wait for it."""
    assert guard.stdin is not None
    guard.stdin.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        guard.wait(10)


def _refusal(address: str | None, said: str) -> str:
    """Why there is no connection, in a sentence."""
    first = one_line(next((line for line in said.splitlines() if line.strip()), "no reason given")).rstrip(
        "."
    )
    if address in (None, "local"):
        return f"no local Ray could be started ({first}); write engine = fast to do without"
    if "ersion" in said and "mismatch" in said.lower():
        words = " ".join(said.split())
        return f"the cluster at {address} has another Ray or Python ({words[:300]}); install the same version here"
    if address == "auto":
        return f"no Ray cluster runs on this machine ({first}); start one: ray start --head"
    return f"no connection to the Ray cluster at {address} ({first}); run on one of its nodes and write ray = auto"


def _hush(ray: Any) -> None:
    """A lost node is our business: Ray would print its last words on standard output, where results are told."""
    inner: Any = getattr(getattr(ray, "_private", None), "worker", None)
    if hasattr(inner, "print_to_stdstream"):
        inner.print_to_stdstream = lambda *said, **more: None


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray sets handlers of its own; those that were there go on: SIGTERM saves a run as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {n: signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None:
                signal.signal(number, handler)


def _fresh_folder() -> Path:
    """A folder for Ray's sockets and logs, under a short path, since a socket's may have 107 letters."""
    place = tempfile.gettempdir()
    if len(place) > 20 and os.path.isdir("/tmp"):
        place = "/tmp"
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=place))

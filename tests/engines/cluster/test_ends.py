"""However a run over a local Ray ends, nothing of it is left; and what is wrong is told in a sentence."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from processes import descendants, heed_interrupts, listening, shared_memory_of, sockets_of, words_of
from unskew.cli import main
from unskew.engines.cluster import connect
from unskew.errors import InputError
from unskew.runs.choose_engine import choose, device_of
from unskew.runs.spec import Spec


def begin(folder: Path) -> subprocess.Popen[bytes]:
    """A long run over a Ray of its own."""
    words = "run --dataset digits --clients 20 --rounds 100000 --engine ray --workers 1 --checkpoint 0 -o"
    return subprocess.Popen(
        [sys.executable, "-m", "unskew", *words.split(), str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=heed_interrupts,
        start_new_session=True,
    )


def wait_until(so: Callable[[], bool], patience: float = 300) -> None:
    until = time.monotonic() + patience
    while not so():
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_nothing_is_left_of_a_local_ray(tmp_path: Path) -> None:
    """Ctrl-C, as a terminal sends it to all, and SIGTERM save and end with 130; after kill -9 a guard ends the rest."""
    pytest.importorskip("ray")
    how = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    runs = {by: begin(tmp_path / by.name) for by in how}  # all at once: most of the time they start
    try:
        places, families, shared, ports = [], {}, set(), set()
        for by, run in runs.items():
            log = tmp_path / by.name / "rounds.jsonl"
            wait_until(
                lambda run=run, log=log: run.poll() is not None or (log.exists() and log.stat().st_size > 0)
            )  # type: ignore[misc]
            assert run.poll() is None
            places += Path("/tmp").glob(f"{connect.PREFIX}{run.pid}-*")
            families[by] = descendants(run.pid)
            assert any("ray::Hand" in words_of(pid) for pid in families[by])
            shared |= shared_memory_of(families[by])
            ports |= sockets_of(families[by]) & listening()
            (os.killpg if by == signal.SIGINT else os.kill)(
                run.pid, by
            )  # it need not train on beside the others
        assert len(places) == len(how)
        assert shared
        assert ports
        for by, run in runs.items():
            assert run.wait(120) == (130 if by != signal.SIGKILL else -signal.SIGKILL)
        for by in how:
            wait_until(lambda by=by: not any(words_of(pid) for pid in families[by]))  # type: ignore[misc]
        wait_until(lambda: not any(place.exists() for place in places))
    finally:
        for run in runs.values():
            run.kill()
            run.wait()
    assert not ports & listening()
    assert not [name for name in shared if os.path.exists(name)]


RUN = ["run", "--dataset", "digits", "--clients", "8", "--rounds", "1", "--engine", "ray", "--out", "run"]


def refused(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    """The one sentence that a run over Ray is refused with; nothing is written."""
    assert main([*RUN, *flags]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert not Path("run").exists()
    return err


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Ray, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(connect, "PATIENCE", 0.2)
    return connect.load_ray()


def test_what_is_wrong_is_one_sentence_and_exit_code_2(
    nowhere: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Addresses that cannot be, another version there, no cluster here, an old Ray, none."""
    assert "no Ray cluster answers at 127.0.0.1:1 " in refused(capsys, "--ray", "127.0.0.1:1")
    assert "is no address; write host:port" in refused(capsys, "--ray", "nonsense")
    assert "an address for Ray's client" in refused(capsys, "--ray", "ray://there:1")
    with monkeypatch.context() as patch, socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        other = "Version mismatch: The cluster was started with:\n    Ray: 2.51.0\n    Python: 3.11.9\n"
        patch.setattr(nowhere, "init", raising(RuntimeError(other)))
        said = refused(capsys, "--ray", address)
        assert f"the cluster at {address} has another Ray or Python" in said
        assert "install the same version here" in said
        patch.setattr(nowhere, "init", raising(ConnectionError("Could not find any running Ray instance.")))
        assert "no Ray cluster runs on this machine" in refused(capsys, "--ray", "auto")
    monkeypatch.setattr(nowhere, "__version__", "2.9.3")
    assert "Ray 2.9.3 is installed, and unskew needs 2.50 or newer" in refused(capsys)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert "Ray is not installed" in (said := refused(capsys))
    assert "pip install 'unskew[ray]'" in said


def raising(problem: Exception) -> Callable[..., Any]:
    def init(**given: Any) -> Any:
        raise problem

    return init


def test_settings_that_contradict_each_other_are_refused() -> None:
    """A cluster for another engine, a GPU by number, a cluster beside the one that was joined."""
    with pytest.raises(InputError, match="write engine = ray too"):
        choose(Spec(ray="auto"), torch.device("cpu"), 0.0)
    with pytest.raises(InputError, match="Ray chooses among GPUs"):
        device_of(Spec(engine="ray", device="cuda:1"))
    connect._check_same("127.0.0.1:6379", "localhost:6379")
    connect._check_same("127.0.0.1:6379", "auto")
    with pytest.raises(
        InputError, match=r"has joined the Ray cluster at 127.0.0.1:6379, and ray = 10.0.0.1:6379"
    ):
        connect._check_same("127.0.0.1:6379", "10.0.0.1:6379")


LOCKED = """
import torch

class Open:
    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        raise TypeError("an open file cannot be pickled")

class Locked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)
        self.file = Open()

    def forward(self, x):
        return self.layer(x.flatten(1))
"""
"""What this model holds can be copied here, and still not be sent."""


def test_a_model_that_cannot_travel_is_refused_before_anything_is_written(
    nowhere: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is a Ray started for it."""
    Path("locked_model.py").write_text(LOCKED)
    monkeypatch.syspath_prepend(".")
    monkeypatch.setattr(nowhere, "init", raising(AssertionError("no Ray is needed to see that")))
    said = refused(capsys, "--model", "locked_model:Locked")
    assert "cannot be sent to other machines (an open file cannot be pickled)" in said

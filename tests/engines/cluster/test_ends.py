"""However a run over a local Ray ends, nothing of it is left; and what is wrong is told in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from processes import descendants, heed_interrupts, listening, shared_memory_of, sockets_of, words_of
from unskew.engines.cluster import connect
from unskew.engines.cluster.engine import OverRay
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
        assert len(places) == len(how)
        assert shared
        assert ports
        for by, run in runs.items():
            (os.killpg if by == signal.SIGINT else os.kill)(run.pid, by)
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


def test_what_is_wrong_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Ray, an old one, addresses that cannot be, a setting without its engine."""
    monkeypatch.setattr(connect, "PATIENCE", 0.2)
    for address, sentence in (
        ("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"),
        ("nonsense", "is no address; write host:port"),
        ("ray://there:1", "an address for Ray's client"),
    ):
        with pytest.raises(InputError, match=sentence):
            OverRay(address)
    with pytest.raises(InputError, match="write engine = ray too"):
        choose(Spec(ray="auto"), torch.device("cpu"), 0.0)
    with pytest.raises(InputError, match="Ray chooses among GPUs"):
        device_of(Spec(engine="ray", device="cuda:1"))
    ray = connect.load_ray()
    monkeypatch.setattr(ray, "__version__", "2.9.3")
    with pytest.raises(InputError, match=r"Ray 2.9.3 is installed, and unskew needs 2.50 or newer"):
        OverRay()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"Ray is not installed.*pip install 'unskew\[ray\]'"):
        OverRay()


def test_a_model_that_cannot_travel_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """What a model holds may be copied here, and still not be sent."""
    import unskew

    class Open:
        def __deepcopy__(self, memo: Any) -> Open:
            return self

        def __reduce__(self) -> Any:
            raise TypeError("an open file cannot be pickled")

    class Locked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer: Any = torch.nn.Linear(64, 10)
            self.file = Open()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x.flatten(1))  # type: ignore[no-any-return]

    with pytest.raises(
        InputError, match=r"cannot be sent to other machines \(an open file cannot be pickled\)"
    ):
        unskew.run(dataset="digits", model=Locked(), engine="ray", out=tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()

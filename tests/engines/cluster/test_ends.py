"""However a run over a local Ray ends, nothing of it is left; and what is wrong is told in a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from unskew.engines.cluster import connect
from unskew.engines.cluster.engine import OverRay
from unskew.engines.cluster.guard import users_of
from unskew.errors import InputError
from unskew.runs.choose_engine import choose, device_of
from unskew.runs.spec import Spec


def begun(folder: Path) -> subprocess.Popen[bytes]:
    """A long run over a Ray of its own that has played a round."""
    words = "run --dataset digits --clients 20 --rounds 100000 --engine ray --workers 1 --checkpoint 0 -o"
    process = subprocess.Popen(
        [sys.executable, "-m", "unskew", *words.split(), str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 300
    while not (folder / "rounds.jsonl").exists() or not (folder / "rounds.jsonl").read_bytes():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_local_ray(by: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM save and end with code 130; after kill -9 a guard ends the rest."""
    pytest.importorskip("ray")
    process = begun(tmp_path / "run")
    (place,) = Path("/tmp").glob(f"{connect.PREFIX}{process.pid}-*")
    there = users_of(f"{place}{os.sep}")
    assert len(there) > 3
    process.send_signal(by)
    assert process.wait(120) == (130 if by != signal.SIGKILL else -signal.SIGKILL)
    until = time.monotonic() + 60
    while place.exists() and time.monotonic() < until:
        time.sleep(0.1)
    assert not place.exists()
    assert not users_of(f"{place}{os.sep}")


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

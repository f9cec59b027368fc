"""Worker processes seen from outside: plain scripts, and a server that is killed."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from forked import Forked
from unskew.cli import main
from unskew.core.method import Method
from unskew.data import Federation
from unskew.engines.cpu import fast
from unskew.engines.cpu.fast import FastCPU
from unskew.testing.toy_federation import play, tiny

SCRIPT = """
from torch import nn
import unskew

class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(64, 10)
    def forward(self, x):
        return self.layer(x.flatten(1))

ended = unskew.run(dataset="digits", clients=20, rounds=2, engine="fast", workers=2, model=Mine(), progress=False)
print("rounds", ended.result["rounds"])
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere workers are spawned, and a script needs a guard"
)
def test_a_plain_script_needs_no_guard_and_no_importable_model(tmp_path: Path) -> None:
    """Two workers, a class of the script's own, and no `if __name__ == "__main__"`."""
    (tmp_path / "mine.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "rounds 2\n", done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the workers' death with their server is Linux's doing")
def test_a_killed_server_takes_its_workers_along_and_resumes_to_the_bit(tmp_path: Path) -> None:
    """kill -9 with two workers: no process stays, the folder is free, and the end is that of a quiet run."""
    settings = [
        "--clients",
        "20",
        "--rounds",
        "20",
        "--engine",
        "fast",
        "--evaluate",
        "10",
        "--momentum",
        "0.9",
    ]
    killed, quiet = tmp_path / "killed", tmp_path / "quiet"
    server = Forked("run", *settings, "--workers", "2", "--checkpoint", "0", "--out", str(killed))
    log = killed / "rounds.jsonl"
    while server.running and not (log.exists() and len(log.read_text().splitlines()) >= 5):
        time.sleep(0.02)
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    server.kill()
    until = time.monotonic() + 60
    while any(_alive(c) for c in children) and time.monotonic() < until:
        time.sleep(0.02)
    assert not any(_alive(c) for c in children)
    assert main(["resume", str(killed)]) == 0
    assert main(["run", *settings, "--workers", "1", "--out", str(quiet)]) == 0
    ends = [json.loads((folder / "result.json").read_text())["model_sha256"] for folder in (killed, quiet)]
    assert ends[0] == ends[1]


def _alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def test_workers_reckon_with_a_crowd_that_travelled_in_single_bytes() -> None:
    """A hundred thousand clients of two samples, in batches of 256: more than a byte holds."""
    few, crowd = tiny(), 100_000
    held = Federation(few.dataset, np.arange(2 * crowd) % len(few.dataset.y), 2 * np.arange(crowd + 1))
    settings = {"rounds": 1, "batch": 256, "cohort": 4}
    one, two = (
        play(Method.parse("fedavg"), held, engine=FastCPU(workers=workers), **settings).hash
        for workers in (1, 2)
    )
    assert one == two


def train(workers: int) -> tuple[str, list[str]]:
    """The model of a run, and what it warned of."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ended = play(Method.parse("fedavg"), tiny(), engine=FastCPU(workers=workers), rounds=1)
    return ended.hash, [str(one.message) for one in said]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a pool is spawned")
def test_a_pool_of_runs_trains_each_in_one_process() -> None:
    """Python lets no process of a pool start others; torch said so in an AssertionError."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        there, said = pool.apply(train, (2,))
    assert there == train(1)[0]
    assert said == [
        "one process trains instead of 2, since a process of a multiprocessing.Pool may start no others; write "
        "workers = 1"
    ]


def test_too_little_shared_memory_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A container has 64 MB of it where nobody asked for more."""

    def full(values: torch.Tensor) -> None:
        raise RuntimeError(
            "unable to allocate shared memory(shm) for file </torch_1_2_3>: No space left on device (28)"
        )

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    words = ["--clients", "6", "--cohort", "3", "--rounds", "1", "--engine", "fast", "--workers", "2"]
    with tempfile.TemporaryDirectory() as folder:
        assert main(["run", *words, "--out", f"{folder}/run", "--json"]) == 2
        assert capsys.readouterr().err == (
            "error: there is too little shared memory (/dev/shm) for several processes; write --workers 1, or give "
            "this machine or container more of it (docker run --shm-size=2g)\n"
        )
        monkeypatch.undo()
        assert main(["resume", f"{folder}/run", "--workers", "1", "--json"]) == 0


def test_a_job_that_finds_no_shared_memory_is_not_said_to_be_unsendable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(value: object) -> bool:
        raise RuntimeError("unable to open shared memory object </torch_1_2_3> in read-write mode")

    monkeypatch.setattr(fast, "of_script", full)
    with pytest.raises(RuntimeError, match="shared memory"):
        play(Method.parse("fedavg"), tiny(), engine=FastCPU(workers=2), rounds=1)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux lists a process's open files there")
def test_runs_leave_no_shared_memory_open() -> None:
    """A model that was only looked through kept twelve files open a run, until workers died of too many."""
    opened = []
    for _ in range(3):
        play(Method.parse("fedavg"), tiny(), engine=FastCPU(workers=2), rounds=1)
        gc.collect()
        opened.append(
            sum("torch_" in os.readlink(f) for f in Path("/proc/self/fd").iterdir() if f.is_symlink())
        )
    assert opened == [0, 0, 0]

"""Worker processes seen from outside: plain scripts, and a server that is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from forked import Forked
from unskew.cli import main
from unskew.core.method import Method
from unskew.data import Federation
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

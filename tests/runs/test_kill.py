"""A real process, really killed: what is resumed ends in the same bits as what was never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forked import Forked
from processes import descendants, heed_interrupts
from unskew.cli.settings import setting_flags
from unskew.errors import InputError
from unskew.runs.ended import Run
from unskew.runs.running import resume, run
from unskew.runs.spec import Spec
from unskew.sealed import unseal
from unskew.seeds import generator

COMMON: dict[str, Any] = {
    "clients": 20,
    "cohort": 4,
    "rounds": 20,
    "model": "mlp(hidden=[16])",
    "lr": 0.05,
    "checkpoint": 0.0,
    "engine": "loop",  # of the two that run here the one that starts sooner
}
KILLED: dict[str, dict[str, Any]] = {
    "faults": {"late": 0.3, "drop": 0.2, "nan": 0.1, "engine": "auto"},
    "momentum": {"method": "fedavg(uniform=true)+full", "momentum": 0.9, "nesterov": True, "evaluate": 3},
    "scaffold": {"method": "scaffold+sem", "late": 0.2, "measure": ("divergence",)},
}


def start(out: Path, settings: dict[str, Any], **how: Any) -> Forked:
    return Forked("run", "--out", str(out), *setting_flags(Spec(**settings).changed()), "--json", **how)


def wait_for(process: Forked, ready: Callable[[], bool], patience: float = 120) -> None:
    """Look again and again until it is so; a process that ends before is a failure."""
    begun = time.monotonic()
    while not ready():
        assert process.running, process.end()
        assert time.monotonic() - begun < patience, "the run does not get on"
        time.sleep(0.001)


def rounds_in(out: Path) -> int:
    log = out / "rounds.jsonl"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def assert_same(one: Run, other: Run) -> None:
    """Every bit of the model, and every number but the time, in memory and in the file."""
    assert one.result["model_sha256"] == other.result["model_sha256"]
    lines = [[{k: v for k, v in li.items() if k != "wall_s"} for li in r.folder.lines] for r in (one, other)]
    assert lines[0] == lines[1]
    assert one.path is not None
    written = (one.path / "rounds.jsonl").read_text().splitlines()
    assert [unseal(text, required=True) for text in written] == one.folder.lines


def ended_soon(out: Path, settings: dict[str, Any]) -> tuple[Run, Run]:
    """A stopped run that goes on for three rounds, and one of as many that was never stopped."""
    end = rounds_in(out) + 3
    return resume(out, progress=False, rounds=end), run(progress=False, **settings | {"rounds": end})


@pytest.mark.parametrize("case", KILLED)
def test_kill_9_at_any_moment_then_resume(case: str, tmp_path: Path) -> None:
    """The moment is drawn by a seed: some rounds in, then a few thousandths of a second into the next."""
    settings = COMMON | KILLED[case]
    rng = generator(0, "kill", case)
    at, later = int(rng.integers(2, 8)), float(rng.uniform(0, 0.03))
    process = start(tmp_path / "run", settings)
    try:
        wait_for(process, lambda: rounds_in(tmp_path / "run") >= at)
        time.sleep(later)
    finally:
        process.kill()
    assert process.end()[0] == -signal.SIGKILL
    assert json.loads((tmp_path / "run" / "result.json").read_text())["status"] == "running"
    ended = resume(tmp_path / "run", progress=False)
    assert_same(ended, run(progress=False, **settings))


def test_a_live_run_is_left_alone_and_ctrl_c_leaves_it_resumable(tmp_path: Path) -> None:
    """A folder in use is refused while its run goes on; SIGINT ends it with code 130 and a checkpoint."""
    out, settings = (
        tmp_path / "run",
        COMMON | {"rounds": 3000, "checkpoint": 1000.0},
    )  # not over before we look
    process = start(out, settings)
    try:
        wait_for(process, lambda: rounds_in(out) >= 2)
        process.send(signal.SIGSTOP)  # alive, but it does not end before we have looked
        with pytest.raises(InputError) as refusal:
            resume(out, progress=False)
        assert str(refusal.value) == f"{out} is in use by a run that is still going; wait for it"
        with pytest.raises(InputError) as refusal:
            run(out=out, progress=False, **settings)
        assert str(refusal.value) == (
            f"{out} already holds a run (running); go on with it by `unskew resume {out}`"
        )
    finally:
        process.send(signal.SIGINT)
        process.send(signal.SIGCONT)
        code, said, complaint = process.end()
    assert (code, said) == (130, "")
    assert complaint.strip() == f"interrupted; go on with it by `unskew resume {out}`"
    assert len(list((out / "state").glob("*.safetensors"))) == 1
    assert_same(*ended_soon(out, settings))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_what_a_scheduler_or_a_closed_terminal_sends_saves_the_run(name: str, tmp_path: Path) -> None:
    """As Ctrl-C does: every round in the log is in the checkpoint, and a second one does not disturb the saving."""
    out, settings = tmp_path / "run", COMMON | {"rounds": 3000, "checkpoint": 1000.0}
    process = start(out, settings)
    try:
        wait_for(process, lambda: rounds_in(out) >= 2)
    finally:
        process.send(signal.Signals[name])
        process.send(signal.SIGTERM)
        code, _, complaint = process.end()
    assert code == 130
    # last: an interrupt that Python dropped while it cleaned something up it tells of before
    assert complaint.splitlines()[-1] == f"interrupted; go on with it by `unskew resume {out}`"
    assert [f.stem for f in (out / "state").iterdir()] == [f"{rounds_in(out):06}"]
    assert_same(*ended_soon(out, settings))


def test_a_stopped_sweep_keeps_the_rounds_of_its_runs(tmp_path: Path) -> None:
    """As a terminal sends it: the runs get Ctrl-C and are asked to end by the sweep as well."""
    experiment, out = tmp_path / "two.toml", tmp_path / "runs"
    settings = {
        "clients": 20,
        "cohort": 4,
        "rounds": 3000,
        "model": "linear",
        "checkpoint": 1000.0,
        "engine": "loop",
    }
    lines = [f"{k} = {json.dumps(v)}" for k, v in settings.items()]
    experiment.write_text("\n".join([*lines, "[sweep]", 'method = ["fedavg", "fedprox(mu=0.1)"]']))
    process = Forked("sweep", str(experiment), "--out", str(out), "--json", new_session=True)
    try:
        wait_for(process, lambda: sum(rounds_in(f.parent) >= 2 for f in out.glob("*/rounds.jsonl")) == 2)
    finally:
        os.killpg(process.pid, signal.SIGINT)
        code, _, complaint = process.end()
    assert code == 130
    assert complaint.strip() == (
        f"interrupted: 0 of 2 runs are done, 2 stopped and saved; go on by `unskew sweep {experiment} --out {out}`"
    )
    for folder in (f.parent for f in out.glob("*/rounds.jsonl")):
        assert [f.stem for f in (folder / "state").iterdir()] == [f"{rounds_in(folder):06}"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks at processes through /proc")
def test_ctrl_c_leaves_no_worker_and_no_shared_memory(tmp_path: Path) -> None:
    """As a terminal sends it, to all processes at once: workers end, shared memory goes, the run can be resumed.

    A command as a shell starts it, since what is cleaned up when Python ends belongs to it.
    """
    out, settings = (
        tmp_path / "run",
        COMMON | {"rounds": 3000, "checkpoint": 1000.0, "engine": "fast", "workers": 2},
    )
    words = ["run", "--out", str(out), *setting_flags(Spec(**settings).changed()), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "unskew", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
        start_new_session=True,
    )
    until = time.monotonic() + 120
    try:
        while rounds_in(out) < 2:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until, "the run does not get on"
            time.sleep(0.01)
        family = [process.pid, *descendants(process.pid)]
        assert len(family) >= 3  # two workers at least
    finally:
        os.killpg(process.pid, signal.SIGINT)
        _, complaint = process.communicate(timeout=120)
    assert process.returncode == 130
    assert complaint.strip() == f"interrupted; go on with it by `unskew resume {out}`"
    left = [pid for pid in family if Path(f"/proc/{pid}").exists()]
    shared = [f.name for f in Path("/dev/shm").glob("*") if any(str(pid) in f.name for pid in family)]
    assert (left, shared) == ([], [])
    assert resume(out, progress=False, rounds=rounds_in(out) + 3).result["status"] == "done"

"""Filling the book on a GPU: what is missing comes in order, a slot runs it, and what it finds can be added."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.book import Job, jobs, missing

ROOT = Path(__file__).resolve().parents[2]


def line(job: Job, seed: int | None) -> dict:
    return {"exhibit": job.group.exhibit, "group": job.group.name, "method": job.method, "seed": seed}


def test_what_is_missing_comes_in_the_plans_order(tmp_path) -> None:
    """A run that was stopped is missing; a mean over seeds stands for all of them."""
    first, second, third, *_ = every = list(jobs())
    assert first.name == "sem-table1/cifar10-0.1/fedavg/seed=0"
    assert len({job.name for job in every}) == len(every)
    kept = [line(first, 0) | {"stopped_after": 3}, line(second, 0), line(third, None)]
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(one) + "\n" for one in kept))
    left = [job.name for job in missing(tmp_path)]
    assert left[0] == first.name
    assert second.name not in left
    assert not any(name.startswith(third.name.rpartition("/")[0] + "/") for name in left)


def test_a_slot_runs_what_is_missing(tmp_path) -> None:
    """On the digits, one run: its line is one of the book's."""
    *others, last = [job for job in jobs() if job.group.exhibit == "niid-mnist"]
    kept = [line(job, job.seed) for job in jobs() if job.name != last.name]
    results = tmp_path / "results"
    results.mkdir()
    (results / "all.jsonl").write_text("".join(json.dumps(one) + "\n" for one in kept))
    command = [sys.executable, "-m", "benchmarks.book", "slot", "--tiny", "--device", "cpu", "--no-mps"]
    command += ["--results", str(results), "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    ran = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert "1 runs done, 0 of 0 others packed, 0 not begun" in ran.stdout
    (found,) = map(json.loads, (tmp_path / "out" / "results.jsonl").read_text().splitlines())
    assert (found["exhibit"], found["method"], found["seed"]) == ("niid-mnist", last.method, last.seed)
    assert others

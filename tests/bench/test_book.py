"""Filling the book on a GPU: what is missing comes in order, a slot runs it, and what it finds can be added."""

from __future__ import annotations

import json
import tarfile

from benchmarks import book
from benchmarks.book import Job, jobs, main, missing


def line(job: Job, seed: int | None) -> dict:
    return {"exhibit": job.group.exhibit, "group": job.group.name, "method": job.method, "seed": seed}


def test_what_is_missing_comes_in_the_plans_order(tmp_path) -> None:
    """A run that was stopped, or was shorter, is missing; a mean over seeds stands for all of them."""
    first, second, third, fourth, *_ = every = list(jobs())
    assert first.name == "sem-table1/cifar10-0.1/fedavg/seed=0"
    assert len({job.name for job in every}) == len(every)
    kept = [line(first, 0) | {"stopped_after": 3}, line(second, 0), line(third, None)]
    kept += [line(fourth, 0) | {"setting": {"rounds": 2}}]
    (tmp_path / "some.jsonl").write_text("".join(json.dumps(one) + "\n" for one in kept))
    left = [job.name for job in missing(tmp_path)]
    assert left[0] == first.name
    assert second.name not in left
    assert fourth.name in left
    assert not any(name.startswith(third.name.rpartition("/")[0] + "/") for name in left)


class Here:
    """A process that is this one: a run is over when it was started."""

    def __init__(self, command: list[str], **given: object):
        assert command[1:3] == ["-m", "benchmarks.book"]
        self.returncode = main(command[3:])

    def poll(self) -> int:
        return self.returncode


def test_a_slot_runs_what_is_missing(tmp_path, monkeypatch, capsys) -> None:
    """On the digits, one run: its line is one of the book's."""
    last = [job for job in jobs() if job.group.exhibit == "niid-mnist"][-1]
    kept = [line(job, job.seed) for job in jobs() if job.name != last.name]
    results = tmp_path / "results"
    results.mkdir()
    (results / "all.jsonl").write_text("".join(json.dumps(one) + "\n" for one in kept))
    monkeypatch.setattr(book.subprocess, "Popen", Here)
    command = ["slot", "--tiny", "--device", "cpu", "--no-mps", "--results", str(results)]
    assert main([*command, "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]) == 0
    assert "1 runs done, 0 of 0 others packed, 0 not begun" in capsys.readouterr().out
    (found,) = map(json.loads, (tmp_path / "out" / "results.jsonl").read_text().splitlines())
    assert (found["exhibit"], found["method"], found["seed"]) == ("niid-mnist", last.method, last.seed)


def test_a_stopped_run_travels_to_the_next_slot(tmp_path) -> None:
    """Packed under a short name, and put back where it was."""
    job = next(jobs())
    folder = book._folder(tmp_path / "work", job)
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text("{}")
    assert book._pack(tmp_path, tmp_path / "work", [job]) == 1
    with tarfile.open(tmp_path / "run-0.tar") as tar:
        assert f"{folder.name}/spec.json" in tar.getnames()

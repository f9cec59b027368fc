"""Runs started, stopped and resumed from the studio: the command line's own, in a queue."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unskew.errors import InputError
from unskew.studio.offers import written
from unskew.studio.queue import Job, RunQueue, is_ours

OpenStudio = Callable[..., Any]
Looks = Callable[..., Any]
LONG = "rounds = 100000\nclients = 6\ncohort = 2\nengine = 'loop'\ncheckpoint = 0.5\n"


def until(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + 150
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_run_is_started_stopped_and_resumed_in_the_browser(
    tmp_path: Path, open_studio: OpenStudio, look: Looks
) -> None:
    """The form, the queue, the live row, Stop that saves, Resume that goes on."""
    studio = open_studio(tmp_path)
    seen = look(studio)
    page = seen.open("/runs")
    page.get_by_text("No runs in this folder yet").wait_for()
    page.click("#new")
    page.locator("#set-method").wait_for()
    page.fill("#run-name", "first")
    for name, value in {"method": "sem", "rounds": "100000", "clients": "6", "cohort": "two"}.items():
        page.fill(f"#set-{name}", value)
    page.locator("#form button[type=submit]").click()
    page.locator("#refusal").wait_for()
    assert "two" in page.locator("#refusal").inner_text()
    seen.complaints.clear()  # the browser's own word on the refusal
    page.fill("#set-cohort", "2")
    page.locator("#form button[type=submit]").click()
    row = page.locator("tr", has_text="first")
    try:
        row.get_by_role("button", name="Stop").wait_for(timeout=150_000)
        until(lambda: (tmp_path / "first" / "rounds.jsonl").exists())
        row.get_by_role("button", name="Stop").click()
        row.get_by_role("button", name="Resume").wait_for(timeout=150_000)
        assert list((tmp_path / "first" / "state").glob("*.safetensors"))  # it has saved
        row.get_by_role("button", name="Resume").click()
        row.get_by_role("button", name="Stop").wait_for(timeout=150_000)
    finally:
        studio.post("/runs/stop", {"name": "first"})
        until(
            lambda: all(
                job["status"] != "running" for job in studio.get("/runs/data").json()["queue"]["jobs"]
            )
        )


def test_one_runs_and_the_next_waits_and_a_new_studio_goes_on(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path)
    try:
        queue.add("one", LONG)
        queue.add("two", LONG)
        until(lambda: queue.jobs[0].status == "running")
        assert queue.jobs[1].status == "waiting"
        with pytest.raises(InputError, match="in the queue already"):
            queue.add("two", LONG)
        queue.close()
        again = RunQueue(tmp_path, read_only=True)  # which looks, and starts nothing
        assert [job.status for job in again.jobs] == ["running", "waiting"]
        assert is_ours(again.jobs[0])
        again.close()
    finally:
        queue.stop("two")
        queue.stop("one")
        process = next(iter(queue._processes.values()))
        process.wait(150)
    assert not (tmp_path / "two").exists()


def test_a_run_that_cannot_start_says_why(tmp_path: Path) -> None:
    queue = RunQueue(tmp_path)
    try:
        queue.add("bad", "method = 'no_such_part'\nrounds = 1\n")
        until(lambda: queue.jobs[0].status == "failed")
        assert "no_such_part" in queue.jobs[0].problem
        queue.forget()
        assert queue.jobs == []
    finally:
        queue.close()


def test_a_table_of_lists_is_a_sweep_and_nonsense_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RunQueue, "_start", lambda self, job: None)
    queue = RunQueue(tmp_path)
    try:
        assert queue.add("grid", "rounds = 1\n[sweep]\nseed = [0, 1]\n").kind == "sweep"
        assert queue.add("single", "rounds = 1\n").kind == "run"
        assert queue.stop("grid").status == "stopped"
        assert queue.resume("grid").status == "waiting"
        assert [job.name for job in queue.jobs] == ["grid", "single"]
        for toml in ("rounds = ", "no_setting = 1\n", "rounds = -1\n"):
            with pytest.raises(InputError) as refused:
                queue.add("other", toml)
            assert str(tmp_path) not in str(refused.value)
        with pytest.raises(InputError, match="no run"):
            queue.resume("never")
        with pytest.raises(InputError, match="not started from this studio"):
            queue.stop("elsewhere")
        with pytest.raises(InputError, match="cores"):
            queue.set_at_once(10_000)
    finally:
        queue.close()


def test_another_process_of_that_number_is_not_ours() -> None:
    assert not is_ours(Job("a", "run", "x", "running", pid=1))


def test_the_forms_texts_become_an_experiment_file() -> None:
    told = {
        "method": "fedprox(mu=0.1)",
        "rounds": "5",
        "cohort": "0.5",
        "target": "0.5, 0.6",
        "seed": "",
        "nesterov": True,
    }
    assert written(told) == (
        'method = "fedprox(mu=0.1)"\nrounds = 5\ncohort = 0.5\ntarget = [0.5, 0.6]\nnesterov = true\n'
    )

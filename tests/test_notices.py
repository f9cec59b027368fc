"""What a library should log is logged, under "unskew", and nothing of it is shown unless somebody listens."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import unskew
from failing_runs import fails_after
from unskew.cli import main
from unskew.engines.cpu.workers import Crew

QUICK = {"clients": 4, "cohort": 2, "partition": "iid", "model": "linear", "progress": False}
SOURCE = Path(unskew.__file__).parent


def said(caplog, level=logging.DEBUG):
    """The lines at or above a level, with their loggers."""
    return [(r.name, r.levelname, r.getMessage()) for r in caplog.records if r.levelno >= level]


def test_a_run_logs_its_beginning_rounds_checkpoints_and_end(caplog, tmp_path):
    """Rounds as debug, what is rarer as info, and nothing as a warning where all is well."""
    caplog.set_level(logging.DEBUG, "unskew")
    ended = unskew.run(dataset="digits", rounds=2, out=tmp_path / "run", checkpoint=0, **QUICK)
    accuracy = ended.result["final"]["accuracy"]
    saved = tmp_path / "run" / "state"
    assert said(caplog, logging.INFO) == [
        (
            "unskew.run",
            "INFO",
            "fedavg on digits begins at round 1 of 2: iid over 4 clients, seed 0, engine fast",
        ),
        ("unskew.run", "INFO", f"round 1: checkpoint saved in {saved}"),
        ("unskew.run", "INFO", f"round 2: checkpoint saved in {saved}"),
        ("unskew.run", "INFO", f"fedavg is done: accuracy {accuracy:.4f}"),
    ]
    rounds = [text for _, level, text in said(caplog) if level == "DEBUG"]
    assert rounds[1] == f"round 2 of 2: 2 of 2 clients answered, accuracy {accuracy:.4f}"


@pytest.mark.parametrize(
    ("fault", "level", "wanted"),
    [
        ("drop", "WARNING", "round 1 is skipped: no update landed, and the model stays as it was"),
        ("nan", "WARNING", r"round 1: updates that are not finite were refused, of clients \d, \d"),
        ("late", "INFO", r"round 2: updates of clients \d, \d landed a round late"),
    ],
)
def test_faults_and_skipped_rounds_are_logged(caplog, fault, level, wanted):
    """With the round they belong to, and the clients where the server knows them."""
    caplog.set_level(logging.INFO, "unskew")
    unskew.run(dataset="digits", rounds=2, **QUICK, **{fault: 1.0})
    assert any(found == level and re.fullmatch(wanted, text) for _, found, text in said(caplog))


def test_what_stops_a_run_is_logged(caplog, tmp_path):
    """An interrupt as a warning, a failure as an error; a resume says where it goes on."""

    class Stops:
        def round_ended(self, round):
            raise KeyboardInterrupt

    caplog.set_level(logging.INFO, "unskew")
    with pytest.raises(KeyboardInterrupt):
        unskew.run(dataset="digits", out=tmp_path / "KeyboardInterrupt", rounds=3, watch=[Stops()], **QUICK)
    with fails_after(1):
        unskew.run(dataset="digits", out=tmp_path / "failed", rounds=3, **QUICK)
    unskew.resume(tmp_path / "KeyboardInterrupt", progress=False)
    lines = said(caplog)
    assert ("unskew.run", "WARNING", "fedavg was interrupted after round 1") in lines
    assert ("unskew.run", "ERROR", "fedavg failed after round 1: stopped") in lines
    assert any(text.startswith("fedavg on digits goes on at round 2 of 3") for _, _, text in lines)


def test_warnings_of_a_run_are_logged_as_well(caplog):
    """Who reads logs sees what ``warnings`` would show."""
    settings = QUICK | {"clients": 100, "model": "mlp", "method": "flea(dense1, share=0.05)"}
    with pytest.warns(UserWarning, match="share nothing by flea"):
        unskew.run(dataset="digits", rounds=1, **settings)
    assert [name for name, level, text in said(caplog) if "share nothing by flea" in text] == [
        "unskew.warnings"
    ]


def test_every_warning_goes_through_the_one_that_logs():
    """``unskew.notices.warn`` instead of ``warnings.warn``, which no log would see."""
    direct = [p.name for p in SOURCE.rglob("*.py") if "warnings.warn(" in p.read_text()]
    assert sorted(direct) == ["notices.py", "renamed.py"], "write `from unskew.notices import warn`"


def _dies_once(setup, work):
    if not os.path.exists(work):
        Path(work).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


def test_a_replaced_worker_is_logged(caplog, tmp_path):
    """With the process that died."""
    crew = Crew(1, _dies_once)
    died = crew.workers[0].process.pid
    try:
        assert crew.map([str(tmp_path / "tried")]) == ["done"]
    finally:
        crew.close()
    wanted = f"worker process {died} died; another takes its place and its clients"
    assert said(caplog) == [("unskew.engines.workers", "WARNING", wanted)]


def test_a_damaged_checkpoint_is_logged(caplog, tmp_path):
    """The one before it is taken, and the log says why."""
    settings = {"rounds": 3, "checkpoint": 0, **QUICK}
    unskew.run(dataset="digits", out=tmp_path / "run", **settings)
    newest = max((tmp_path / "run" / "state").glob("*.safetensors"))
    newest.write_bytes(newest.read_bytes()[:-1] + b"?")
    unskew.resume(tmp_path / "run", progress=False)
    assert ("unskew.state", "WARNING", f"{newest} is damaged and left out") in said(caplog)


def test_nothing_is_shown_until_somebody_listens(tmp_path, capsys, monkeypatch):
    """Not by a library that is imported, nor by the command line, whose output is its own."""
    code = "import unskew, logging; logging.getLogger('unskew.run').error('loud')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == done.stdout == ""
    monkeypatch.chdir(tmp_path)
    words = "run --clients 4 --cohort 2 --rounds 1 --partition iid --model linear --drop 1.0 --out run --json"
    assert main(words.split()) == 0
    assert "skipped" not in capsys.readouterr().err

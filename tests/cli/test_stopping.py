"""A command that was told to stop stops, also where Python loses the interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forked import Forked
from processes import heed_interrupts

SLIPPING = '''
import os, signal
from dataclasses import dataclass
from typing import ClassVar

from unskew.parts import PARTS

FedAvg = PARTS["fedavg"]


class Dropped:
    def __del__(self):  # Python drops what is raised here
        os.kill(os.getpid(), signal.SIGINT)


@dataclass(frozen=True)
class Slip(FedAvg):
    """Averages models; a Ctrl-C comes while an object is cleaned up."""

    name: ClassVar[str] = "slip"

    def merge(self, *given):
        Dropped()
        return super().merge(*given)
'''


def test_an_interrupt_that_python_drops_is_heeded_after_the_round(tmp_path, monkeypatch):
    """It came while an object was cleaned up: the run is saved and ends, with the command that goes on with it."""
    (tmp_path / "slip.py").write_text(SLIPPING)
    monkeypatch.syspath_prepend(str(tmp_path))
    out = tmp_path / "run"
    words = ("--method", "slip:Slip", "--clients", "6", "--cohort", "3", "--rounds", "500", "--out", str(out))
    code, _, complaint = Forked("run", *words).end()
    assert code == 130
    assert complaint.splitlines()[-1] == f"interrupted; go on with it by `unskew resume {out}`"
    assert "Traceback" not in complaint  # which Python prints of what it drops
    assert (out / "rounds.jsonl").read_text().count("\n") == 1


RUN = ("--clients", "6", "--cohort", "3", "--model", "linear", "--engine", "loop")


def unskew(*words: str, stderr: int, before: str = "import unskew.__main__ as it") -> subprocess.Popen[str]:
    """The command as its script starts it, in a Python that first does something else."""
    code = f"import sys; {before}; sys.exit(it.main())"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
        preexec_fn=heed_interrupts,
    )


def test_ctrl_c_while_modules_load_ends_it_without_a_word():
    """The slow import stands for all of them: Ctrl-C comes in the middle of one."""
    slow = (
        "import os, signal, types, unskew.__main__ as it;"
        "sys.meta_path.insert(0, types.SimpleNamespace(find_spec=lambda name, *more:"
        " os.kill(os.getpid(), signal.SIGINT) if name == 'unskew.cli' else None))"
    )
    process = unskew("methods", stderr=subprocess.PIPE, before=slow)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == -signal.SIGINT  # a shell calls that 130


def test_a_run_whose_lines_nobody_reads_any_more_goes_on(tmp_path):
    """``2>&1 | head -1`` closes the pipe after the first line; a terminal may be closed, too."""
    reads, writes = os.pipe()
    os.close(reads)
    process = unskew("run", *RUN, "--rounds", "3", "--out", str(tmp_path / "run"), stderr=writes)
    os.close(writes)
    assert process.wait(timeout=120) == 0
    assert (tmp_path / "run" / "rounds.jsonl").read_text().count("\n") == 3


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no file here is always full")
def test_what_is_wrong_has_its_code_where_the_sentence_cannot_be_written():
    with open("/dev/full", "w") as full:
        assert unskew("run", "--rounds", "x", stderr=full.fileno()).wait(timeout=60) == 2


def test_ctrl_c_to_all_while_workers_start_is_one_sentence(tmp_path):
    """A terminal sends it to workers, too: in a fork it was lost, or raised where nobody expected it."""
    out = tmp_path / "run"
    words = (*RUN[:-1], "fast", "--workers", "2", "--rounds", "500", "--out", str(out))
    before = (
        "import os, signal, multiprocessing.util as u, unskew.__main__ as it;"
        "os.setsid();"
        "os.register_at_fork(after_in_parent=lambda: os.killpg(0, signal.SIGINT), after_in_child=lambda: None)"
    )
    process = unskew("run", *words, stderr=subprocess.PIPE, before=before)
    complaint = process.communicate(timeout=120)[1]
    assert process.returncode == 130
    assert complaint.splitlines()[-1] == f"interrupted; go on with it by `unskew resume {out}`"
    assert "Traceback" not in complaint
    until = time.monotonic() + 60
    while subprocess.run(["pgrep", "-g", str(process.pid)], capture_output=True, check=False).stdout:
        assert time.monotonic() < until, "a worker outlives the run"
        time.sleep(0.02)
    assert not (out / "rounds.jsonl").exists()

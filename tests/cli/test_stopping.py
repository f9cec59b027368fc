"""A command that was told to stop stops, also where Python loses the interrupt."""

from __future__ import annotations

from forked import Forked

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
    assert f"interrupted; go on with it by `unskew resume {out}`" in complaint
    assert "Exception ignored in" in complaint
    assert (out / "rounds.jsonl").read_text().count("\n") == 1

"""The page about checks: its table is the battery's, and its part runs by its path (test_docs.py runs its code)."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path

import pytest

from unskew.cli import main
from unskew.testing.checks import CHECKS, FORM

PAGE = Path(__file__).resolve().parents[2] / "docs" / "checks.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.S)


def test_the_table_of_the_page_is_the_battery() -> None:
    """Every check with the first line of its docstring, in order; the first are those of a part's form."""
    table = re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text(), flags=re.M)
    assert table == [(name, (inspect.getdoc(check) or "").split("\n")[0]) for name, check in CHECKS.items()]
    assert list(FORM) == list(CHECKS)[: len(FORM)]


def test_the_part_of_the_page_runs_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the folder that holds its file, as the page says."""
    (written,) = re.findall(r"`unskew run (--method \".*?\")`", PAGE.read_text())
    (tmp_path / "softpull.py").write_text(blocks("python")[0])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    small = ["--clients", "8", "--cohort", "2", "--rounds", "1", "--json"]
    assert main(["run", *shlex.split(written), *small]) == 0
    assert "softpull:SoftPull(mu=0.5)+sem" in capsys.readouterr().out
    sys.modules.pop("softpull", None)

"""The page about reports: its commands run, and its experiment is a sweep (test_docs.py runs its Python)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from unskew.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "report.md"


def code(language: str) -> str:
    """The page's blocks of code in a language, one after another."""
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), flags=re.S))


def test_the_commands_of_the_page_run(
    six_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every line, on folders of those names; only the baseline is one that is there."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    six_runs.rename("runs/compare")
    (tmp_path / "runs/compare/fedavg-0").rename("runs/a")
    (tmp_path / "runs/compare/fedavg-1").rename("runs/b")
    lines = code("bash").replace('"sem"', "full").replace('"sem=', '"full=').strip().splitlines()
    assert len(lines) == 10
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        assert program == "unskew"
        assert main(arguments) == 0, capsys.readouterr().err
    written = {"runs/compare/report.html", "runs/compare/report.pdf", "page.html", "table.tex"}
    assert all((tmp_path / name).is_file() for name in written)


def test_the_experiment_of_the_picture_is_a_sweep_of_25_runs(tmp_path: Path) -> None:
    """Five methods, five seeds; every method is one that this version knows."""
    from unskew.core.method import Method
    from unskew.runs.experiment_file import read_toml
    from unskew.runs.sweep import cells

    (tmp_path / "picture.toml").write_text(code("toml"))
    settings, grid = read_toml(tmp_path / "picture.toml")
    specs = [cell.spec for cell in cells(settings, grid, tmp_path)]
    assert len(specs) == 25
    assert all(Method.parse(spec.method) for spec in specs)

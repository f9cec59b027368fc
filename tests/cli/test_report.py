"""``unskew report`` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from unskew.cli import main

WriteRun = Callable[..., Path]


def test_it_prints_who_won_and_where_the_report_is(
    six_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Headline, leaderboard, file; on a narrow terminal too."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["report", str(six_runs), "-o", str(tmp_path / "a.html")]) == 0
    shown = capsys.readouterr().out
    assert "full beats fedavg by 5.0 points" in shown
    assert "87.00 ± 6.57" in shown
    assert "+5.00" in shown
    assert "0.013" in shown
    assert "a.html" in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 80
    assert (tmp_path / "a.html").is_file()


def test_json_is_one_object_that_names_the_file(
    six_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """For scripts: every number, and where the report went."""
    assert main(["report", str(six_runs), "-o", str(tmp_path / "a.csv"), "--json", "--baseline", "full"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["report"] == str(tmp_path / "a.csv")
    assert said["headline"].startswith("Nothing beats full.")
    fedavg = said["problems"][0]["leaderboard"][1]
    assert fedavg["baseline"] == "full"
    assert fedavg["p"] == pytest.approx(0.013072, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["{runs}/nowhere"], "there is no run folder"),
        (["{runs}", "--baseline", "fedavgg"], "did you mean 'fedavg'?"),
        (["{runs}", "-o", "{runs}/a.doc"], "ends in '.doc'"),
        (["{runs}", "--format", "word"], "there is no format 'word'; write one of csv, html, latex"),
        (["{runs}", "-o", "{runs}/no/a.html"], "does not exist"),
        ([], "Missing argument 'RUN"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    six_runs: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    """And nothing is written."""
    before = sorted(six_runs.rglob("*"))
    assert main(["report", *(word.format(runs=six_runs) for word in arguments)]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.strip().splitlines()) == 1
    assert sorted(six_runs.rglob("*")) == before

"""What a run used of the federation, as numbers and as a picture."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

from unskew.report import write_report
from unskew.report.results.comparison import compare
from unskew.report.results.look import styles
from unskew.report.results.tables import csv_text
from unskew.report.results.usage import usage_bars, usage_told


def counted(folder: Path, used: list[int], distinct: list[int], asked: list[int]) -> None:
    """Add to each round of a run what this version counts."""
    log = folder / "rounds.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line, a, b, c in zip(lines, used, distinct, asked, strict=True):
        line |= {"samples_used": a, "distinct_clients": b, "asked": c}
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))


def two_runs(write_run: Callable[..., Path], tmp_path: Path) -> Path:
    """fedavg uses 3 x 100 samples of 10 clients a round, 25 in all; kld 240 samples, of 8, 10 and 9, 12 in all."""
    counted(write_run("s/fedavg", [0.5, 0.6, 0.7], method="fedavg"), [100] * 3, [10, 18, 25], [10] * 3)
    counted(write_run("s/kld", [0.6, 0.7, 0.8], method="kld"), [80] * 3, [8, 12, 12], [8, 10, 9])
    return tmp_path / "s"


def test_used_samples_add_up_and_clients_a_round_are_a_mean(
    write_run: Callable[..., Path], tmp_path: Path
) -> None:
    """300 and 240 samples; 10 and (8 + 10 + 9)/3 = 9 clients a round; 25 and 12 different ones."""
    compared = compare(two_runs(write_run, tmp_path))
    rows = {row["label"]: row for row in csv.DictReader(io.StringIO(csv_text(compared)))}
    names = ("samples_used_mean", "asked_a_round_mean", "distinct_clients_mean")
    assert [float(rows["fedavg"][name]) for name in names] == [300, 10, 25]
    assert [float(rows["kld"][name]) for name in names] == [240, 9, 12]


def test_the_page_draws_and_tells_them(write_run: Callable[..., Path], tmp_path: Path) -> None:
    """Three panels: samples with the accuracy as a dot, clients a round, different clients."""
    folder = two_runs(write_run, tmp_path)
    _, rows = compare(folder).tables[0]
    picture = usage_bars(rows, styles([rows]))
    assert picture is not None
    assert len(picture.to_dict()["hconcat"]) == 3
    assert usage_told(rows) == (
        "What a run used: kld 240 samples of 12 clients, 9 a round; fedavg 300 samples of 25 clients, 10 a round"
    )
    page = write_report([folder], tmp_path / "r.html").read_text()
    assert "Whom and what it used" in page


def test_a_log_that_did_not_count_them_has_no_such_picture(six_runs: Path) -> None:
    """Of an older version: the columns are empty and the section is left out."""
    compared = compare(six_runs)
    _, rows = compared.tables[0]
    assert usage_bars(rows, styles([rows])) is None
    assert next(csv.DictReader(io.StringIO(csv_text(compared))))["samples_used_mean"] == ""

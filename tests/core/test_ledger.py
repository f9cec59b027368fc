"""Who trains without uploading is not counted among those who never answered."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from unskew import run
from unskew.core.ledger import Ledger
from unskew.report.results import words
from unskew.report.results.comparison import compare

SMALL = {"clients": 12, "cohort": 6, "rounds": 3, "fraction": 0.1, "progress": False}


@pytest.mark.parametrize(
    ("method", "counted"),
    [
        ("fedavg", [0, 0, 0]),
        ("sem", [0, 0, 0]),
        ("sem(via=others)", [6, 6, 6]),
        ("phase_shift(2)", [3, 3, 0]),
    ],
)
def test_without_faults_everybody_answers_or_only_trains(
    method: str, counted: list[int], tmp_path: Path
) -> None:
    """SEM's first clients hand their models to others; of two phases one uploads, and in the last round both."""
    ended = run(method=method, out=tmp_path / "run", **SMALL)
    lines = ended.folder.lines
    assert [line.get("trained_only", 0) for line in lines] == counted
    assert all(line["asked"] == line["answered"] + line.get("trained_only", 0) for line in lines)
    ((_, (row,)),) = compare(tmp_path / "run").tables
    assert words.faults(row) == "none"


@pytest.mark.parametrize("method", ["sem", "sem(via=others)", "phase_shift(2)"])
def test_who_is_lost_is_not_among_those_who_only_train(method: str) -> None:
    """With half of the clients lost in every leg, some are missing from both counts in every round but luck's."""
    lines = run(method=method, drop=0.5, **SMALL).folder.lines
    missing = [line["asked"] - line["answered"] - line.get("trained_only", 0) for line in lines]
    assert min(missing) >= 0
    assert sum(missing) > 0


def test_who_has_ever_trained_is_a_bit_each_and_goes_on_from_bytes() -> None:
    """Of ten clients 0, 3 and 9 have trained, as a version before wrote it; 3 and 8 train now, 5 had nothing to do."""
    before = torch.zeros(10, dtype=torch.bool)
    before[[0, 3, 9]] = True
    ledger = Ledger(model=1)
    ledger.spent.update({3: 2, 8: 1, 5: 0})
    after = ledger.trained({"clients": before}, 10)["clients"]
    assert ledger.distinct == 4
    assert after.tolist() == [0b10010000, 0b11000000]
    again = Ledger(model=1)
    again.spent.update({9: 1, 1: 1})
    assert again.trained({"clients": after}, 10)["clients"].tolist() == [0b11010000, 0b11000000]
    assert again.distinct == 5
    assert after.tolist() == [0b10010000, 0b11000000]  # what was handed in stays as it was

"""A cell is told by the book or by runs made here, never by one of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unskew.reproduce.exhibit import exhibit_of
from unskew.reproduce.known import Known
from unskew.reproduce.running import keep_lines
from unskew.reproduce.shipped import shipped_lines


def keep(place: Path, method: str, seed: int, accuracy: float) -> None:
    """A whole run of digits-steps, made here."""
    setting = {"clients": 40, "cohort": 4, "epochs": 2.0, "batch": 8, "lr": 0.05, "rounds": 40}
    about = {"exhibit": "digits-steps", "group": "digits", "device": "cpu", "setting": setting}
    keep_lines(place, [about | {"method": method, "seed": seed, "accuracy": [accuracy]}])


def told(place: Path) -> dict[str, Any]:
    known = Known(exhibit_of("digits-steps"), place, ["digits"])
    return {one.cell.method: (source, str(one.end)) for one, source in known.judged()}


def test_a_base_alone_changes_nothing_and_both_methods_change_their_cell_alone(tmp_path) -> None:
    """Seed 7 is not in the book: FedAvg's run makes no gain with the book's; fedadam's makes one with FedAvg's."""
    before = told(tmp_path)
    assert {source for source, _ in before.values()} == {"the book"}
    keep(tmp_path, "fedavg", 7, 0.5)
    assert told(tmp_path) == before
    keep(tmp_path, "fedadam", 7, 0.75)
    assert told(tmp_path) == before | {"fedadam": ("here", "+25.0")}


def test_rows_are_those_made_here_or_the_books(tmp_path) -> None:
    """All of one or all of the other."""
    known = Known(exhibit_of("daca-seconds"), tmp_path, [])
    assert known.row_lines() == shipped_lines("daca-seconds")
    row = {"exhibit": "daca-seconds", "group": "", "method": "", "row": {"SNR": "10 dB"}}
    keep_lines(tmp_path, [row, row | {"exhibit": "daca-gap"}])
    assert known.row_lines() == [row]

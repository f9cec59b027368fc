"""What it cost to reach an accuracy: worked by hand, in every format, and said where it never was."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from unskew.cli import main
from unskew.errors import InputError
from unskew.report import write_report
from unskew.report.results.comparison import compare
from unskew.report.results.tables import csv_text, latex_text

WriteRun = Callable[..., Path]


@pytest.fixture
def three_seeds(write_run: WriteRun, tmp_path: Path) -> Path:
    """full gets to 0.7 in round 2, in round 3 and never; fedavg never. A round: 10 kB down, 10 kB up, 100 steps.

    full also moves 4 kB between clients and takes 1.5 s on the air.
    """
    for seed, curve in enumerate(([0.1, 0.7, 0.6], [0.1, 0.2, 0.8], [0.1, 0.2, 0.3])):
        extra = {"bytes_peer": 4_000, "air_s": 1.5}
        write_run(f"runs/full-{seed}", curve, seed=seed, method="full", lines=extra)
        write_run(f"runs/fedavg-{seed}", [0.1, 0.2, 0.25], seed=seed, lines={"air_s": 1.0})
    return tmp_path / "runs"


def test_the_cost_to_a_target_is_the_mean_over_the_seeds_that_reach_it(three_seeds: Path) -> None:
    """Rounds 2 and 3: 2.5 rounds, 25 kB down and up, 10 kB between clients, 3.75 s, 250 steps; 2 of 3 seeds."""
    ((_, (full, fedavg)),) = compare(three_seeds, target=0.7).tables
    (to,) = full.reached
    assert dict(to.cost) == {
        "rounds": 2.5,
        "bytes_down": 25_000,
        "bytes_up": 25_000,
        "bytes_peer": 10_000,
        "air_s": 3.75,
        "sample_steps": 250,
    }
    assert (to.bytes, to.seeds, to.of) == (60_000, 2, 3)
    (never,) = fedavg.reached
    assert (dict(never.cost), never.bytes, never.seeds, never.of) == ({}, None, 0, 3)


def test_what_is_asked_of_the_report_overrules_what_the_runs_watched_for(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """The runs knew 0.4; the report asks for 0.2 and 0.5, in any order and one of them twice."""
    write_run("a", [0.3, 0.5], target=(0.4,))
    ((_, (row,)),) = compare(tmp_path).tables
    assert [(to.target, to.rounds) for to in row.reached] == [(0.4, 2)]
    ((_, (row,)),) = compare(tmp_path, target=(0.5, 0.2, 0.5)).tables
    assert [(to.target, to.rounds) for to in row.reached] == [(0.2, 1), (0.5, 2)]


def test_without_a_network_there_are_no_seconds_on_the_air(write_run: WriteRun, tmp_path: Path) -> None:
    """They are not known, which is not zero."""
    write_run("a", [0.5])
    said = compare(tmp_path, target=0.5).as_dict()["problems"][0]["leaderboard"][0]["cost_to_target"]["0.5"]
    assert said["air_s"] is None
    assert said["bytes"] == 20_000


def test_the_page_has_a_table_of_costs_and_says_who_never_gets_there(
    three_seeds: Path, tmp_path: Path
) -> None:
    """Numbers in full's line, in fedavg's none and the reason; the same in the leaderboard's column."""
    text = write_report(three_seeds, tmp_path / "a.html", target=0.7).read_text()
    assert ">Cost to reach 70%</h2>" in text
    table = re.search(
        r'<table class="reach stack">.*?</table>', re.sub(r' data-title="[^"]*"', "", text), flags=re.S
    )
    assert table is not None
    full, fedavg = re.findall(r"<tr><td>.*?</tr>", table[0])
    cells = [re.sub("<.*?>", "", cell) for cell in full.split("<td")]
    assert [cell.partition(">")[2] for cell in cells[1:]] == (
        ["full", "2 of 3", "2.5", "25.0 kB", "25.0 kB", "10.0 kB", "60.0 kB", "3.8 s", "250"]
    )
    assert "never; at best 25.0%" in fedavg
    assert fedavg.count('<td class="number"></td>') == fedavg.count('<td class="number">')  # all are empty
    assert "empty where none does" in table[0]


def test_json_has_every_cost_by_group_and_by_run(
    three_seeds: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`report --target` after the fact; a run that never gets there has null."""
    assert main(["report", str(three_seeds), "--target", "0.7", "--target", "0.2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    full, fedavg = said["problems"][0]["leaderboard"]
    assert full["cost_to_target"]["0.7"] == {
        "rounds": 2.5,
        "bytes_down": 25_000,
        "bytes_up": 25_000,
        "bytes_peer": 10_000,
        "air_s": 3.75,
        "sample_steps": 250,
        "bytes": 60_000,
        "seeds": 2,
        "of": 3,
    }
    assert fedavg["cost_to_target"]["0.7"]["rounds"] is None
    assert fedavg["cost_to_target"]["0.2"]["rounds"] == 2
    runs = {(run["method"], run["seed"]): run["cost_to_target"]["0.7"] for run in said["runs"]}
    assert runs["full", 0]["rounds"] == 2
    assert runs["full", 2] is None


def test_the_csv_has_a_column_a_cost_and_nothing_where_it_was_never_reached(three_seeds: Path) -> None:
    """Empty cells, and 0 seeds."""
    full, fedavg = csv.DictReader(io.StringIO(csv_text(compare(three_seeds, target=0.7))))
    names = ("rounds", "bytes_down", "bytes_up", "bytes_peer", "bytes", "air_s", "sample_steps")
    assert [float(full[f"{name}_to_0.7"]) for name in names] == [
        2.5,
        25_000,
        25_000,
        10_000,
        60_000,
        3.75,
        250,
    ]
    assert [fedavg[f"{name}_to_0.7"] for name in names] == [""] * 7
    assert (full["seeds_reaching_0.7"], fedavg["seeds_reaching_0.7"]) == ("2", "0")


def test_latex_has_one_more_table_where_a_target_was_asked_for(three_seeds: Path) -> None:
    """Costs of who gets there; never, and empty cells, of who does not."""
    text = latex_text(compare(three_seeds, target=0.7))
    assert text.count("\\begin{tabular}") == 3
    assert "full & 2 of 3 & 2.5 & 25.0 kB & 25.0 kB & 10.0 kB & 3.8 s & 250 \\\\" in text
    assert "fedavg & 0 of 3 & never &  &  &  &  &  \\\\" in text
    assert latex_text(compare(three_seeds)).count("\\begin{tabular}") == 2


def test_the_terminal_tells_the_costs(
    three_seeds: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the leaderboard, on a narrow terminal too."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["report", str(three_seeds), "--target", "0.7"]) == 0
    shown = capsys.readouterr().out
    assert "cost to reach 70%" in shown
    assert re.search(r"full +2 of 3 +2\.5 +25\.0 kB +25\.0 kB +10\.0 kB +3\.8 s +250", shown)
    assert "never; at" in shown


def test_who_is_still_running_has_not_got_there_so_far(write_run: WriteRun, tmp_path: Path) -> None:
    """Never is said of what has ended."""
    write_run("a", [0.3], rounds=5, status="running")
    text = write_report(tmp_path, tmp_path / "a.html", target=0.7).read_text()
    assert "not so far; at best 30.0%" in text
    assert "never" not in re.sub(r"<script.*?</script>|How to read.*", "", text, flags=re.S)


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (80, "target is an accuracy from 0 to 1, not 80; write 0.8"),
        (-0.1, "target is an accuracy from 0 to 1, not -0.1; write 0.8"),
        (float("nan"), "target is an accuracy from 0 to 1, not nan; write 0.8"),
        (["0.8"], "target is an accuracy from 0 to 1, not '0.8'; write 0.8"),
    ],
)
def test_a_target_that_is_no_accuracy_is_one_sentence(
    three_seeds: Path, target: float, sentence: str
) -> None:
    """Before anything is written."""
    with pytest.raises(InputError) as problem:
        write_report(three_seeds, target=target)
    assert str(problem.value) == sentence
    assert not (three_seeds / "report.html").exists()

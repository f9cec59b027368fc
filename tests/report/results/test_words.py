"""The headline: what won, by how much, over what, and how sure one may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from unskew.report.results import words
from unskew.report.results.comparison import compare
from unskew.report.results.statistics import Difference, estimate

WriteRun = Callable[..., Path]


def say(write_run: WriteRun, folder: Path, **finals: list[float]) -> words.Headline:
    """The headline of methods with these final accuracies, seed by seed."""
    for method, values in finals.items():
        for seed, value in enumerate(values):
            write_run(f"{method}-{seed}", [0.1, value], method=method, seed=seed)
    return compare(folder).headline


def test_a_difference_beyond_chance_is_a_win(six_runs: Path) -> None:
    """p = 0.013 with three seeds: beats, with the interval 5.0 +- 2.5 and the test."""
    said = compare(six_runs).headline
    assert said.title == "full beats fedavg by 5.0 points"
    assert said.lead == (
        "Final global test accuracy 87.0% ± 6.6 after round 3 (mean of 3 seeds ± half the 95% interval), "
        "against 82.0% ± 5.0. "
        "The difference is 5.0 points (95% interval +2.5 to +7.5 over 3 paired seeds, p = 0.013): "
        "more than chance explains."
    )


def test_a_difference_within_chance_is_called_that(write_run: WriteRun, tmp_path: Path) -> None:
    """0.10 and -0.02 apart: t = 0.04 / 0.06 = 2/3, p = 1 - 2 atan(2/3) / pi = 0.63."""
    said = say(write_run, tmp_path, fedavg=[0.5, 0.6], full=[0.6, 0.58])
    assert said.title == "full is ahead of fedavg by 4.0 points, which may be chance"
    assert said.lead.endswith("over 2 paired seeds, p = 0.63): this may be chance.")


def test_a_smaller_but_surer_gain_is_named_too(write_run: WriteRun, tmp_path: Path) -> None:
    """The first by mean may be chance where the second is not: 0.01 each time, give or take a thousandth."""
    fedavg = [0.50, 0.60, 0.70]
    for seed, value in enumerate(fedavg):
        write_run(f"fedavg-{seed}", [value], method="fedavg", seed=seed)
        write_run(f"full-{seed}", [value + (0.1, -0.05, 0.0)[seed]], method="full", seed=seed)
        small = value + (0.010, 0.011, 0.009)[seed]
        write_run(f"small-{seed}", [small], method="fedavg(uniform=true)", seed=seed)
    said = compare(tmp_path).headline
    assert said.title == "full is ahead of fedavg by 1.7 points, which may be chance"
    assert "More than chance explains: fedavg(uniform=true) (+1.0 points, corrected p = 0.007)." in said.lead


def test_one_seed_proves_nothing_and_says_so(write_run: WriteRun, tmp_path: Path) -> None:
    """A lead on one seed is a lead on one seed."""
    said = say(write_run, tmp_path, fedavg=[0.5], full=[0.6])
    assert said.title == "full is ahead of fedavg by 10.0 points on one seed"
    assert "run more seeds to know" in said.lead


@pytest.mark.parametrize(
    ("fedavg", "full", "title"),
    [
        ([0.5, 0.6], [0.6, 0.7], "full is ahead of fedavg by 10.0 points"),
        ([0.6, 0.7], [0.5, 0.6], "fedavg is ahead of full by 10.0 points"),
        ([0.5, 0.6], [0.5, 0.6], "fedavg and full are equal"),
    ],
)
def test_the_same_difference_for_every_seed_is_a_lead_and_no_win(
    write_run: WriteRun, tmp_path: Path, fedavg: list[float], full: list[float], title: str
) -> None:
    """Two seeds with the same difference have no p: nothing was tested, so nothing "beats"."""
    said = say(write_run, tmp_path, fedavg=fedavg, full=full)
    assert said.title == title
    assert "beats" not in said.title + said.lead


def test_a_baseline_that_nothing_beats_is_the_headline(write_run: WriteRun, tmp_path: Path) -> None:
    """The next best is named, with how far it is behind."""
    said = say(write_run, tmp_path, fedavg=[0.6, 0.7], full=[0.5, 0.58])
    assert said.title == "Nothing beats fedavg"
    assert "next comes full at 54.0%" in said.lead
    assert "11.0 points below" in said.lead


def test_one_seed_is_never_nothing_beats(write_run: WriteRun, tmp_path: Path) -> None:
    """A baseline that leads on one seed leads on one seed, as any other method does."""
    said = say(write_run, tmp_path, fedavg=[0.6], full=[0.5])
    assert said.title == "fedavg is ahead of full by 10.0 points on one seed"
    assert "run more seeds to know" in said.lead


def test_a_method_that_wins_on_the_shared_seeds_is_not_nothing(write_run: WriteRun, tmp_path: Path) -> None:
    """fedavg has a third seed that lifts its mean; on the two they share full is 0.10 and 0.1001 above."""
    for seed, value in enumerate((0.5, 0.5, 0.95)):
        write_run(f"fedavg-{seed}", [value], method="fedavg", seed=seed)
    for seed, value in enumerate((0.6, 0.6001)):
        write_run(f"full-{seed}", [value], method="full", seed=seed)
    said = compare(tmp_path).headline
    assert said.title == "fedavg has the highest mean, but full beats it on the seeds they share"


@pytest.mark.parametrize(("spread", "around"), [("ci", "± 6.6"), ("sd", "± 2.6")])
def test_plus_minus_is_what_was_asked_for(six_runs: Path, spread: Literal["ci", "sd"], around: str) -> None:
    """full: sd 2.65, half the interval 6.57; the sentence says which it is."""
    lead = compare(six_runs, spread=spread).headline.lead
    assert f"87.0% {around}" in lead
    assert words.MEANING[spread] in lead


def test_only_what_is_more_than_chance_is_coloured(
    write_run: WriteRun, tmp_path: Path, six_runs: Path
) -> None:
    """p = 0.013 is green one way and red the other; a gain on one seed, and 0.00, are neither."""
    ((_, (full, _)),) = compare(six_runs).tables
    assert full.difference is not None
    assert words.tone(full.difference, full.p_holm) == "up"
    ((_, (_, fedavg)),) = compare(six_runs, "full").tables
    assert fedavg.difference is not None
    assert words.tone(fedavg.difference, fedavg.p_holm) == "down"
    write_run("one/a", [0.5], method="fedavg")
    write_run("one/b", [0.6], method="full")
    ((_, (alone, _)),) = compare(tmp_path / "one").tables
    assert alone.difference is not None
    assert words.tone(alone.difference, alone.p_holm) == ""
    tiny = Difference(-0.00001, 0.0, 0.001, (0, 1, 2))
    assert (words.tone(tiny, 0.001), words.signed(-0.00001, 2)) == ("", "0.00")


def test_methods_with_equal_numbers_are_called_equal(write_run: WriteRun, tmp_path: Path) -> None:
    """A method that changes nothing wins nothing; the first by name leads the table."""
    said = say(write_run, tmp_path, full=[0.5, 0.6], centralized=[0.9, 0.9])
    assert said.title == "full reaches 55.0% global test accuracy"
    for seed, value in enumerate((0.5, 0.6)):
        write_run(f"again-{seed}", [0.1, value], method="fedavg(uniform=true)", seed=seed)
    assert compare(tmp_path, "full").headline.title == "fedavg(uniform=true) and full are equal"


def test_unfinished_runs_say_so_far(write_run: WriteRun) -> None:
    """A number that may still change is marked."""
    folder = write_run("a", [0.25], status="running", rounds=10)
    assert compare(folder).headline.title == "fedavg reaches 25.0% global test accuracy so far"


def test_several_problems_count_who_is_best_where(write_run: WriteRun, tmp_path: Path) -> None:
    """full is best on two of three."""
    for partition, fedavg, full in (("iid", 0.9, 0.8), ("dirichlet(1)", 0.7, 0.8), ("q(0.5)", 0.5, 0.6)):
        write_run(f"fedavg-{partition}", [fedavg], method="fedavg", partition=partition)
        write_run(f"full-{partition}", [full], method="full", partition=partition)
    said = compare(tmp_path).headline
    assert said.title == "full is ahead in 2 of 3 settings on one seed"
    assert "iid: fedavg at 90.0%" in said.lead


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (words.size(999), "999 B"),
        (words.size(1_500), "1.50 kB"),
        (words.size(48_032_000), "48.0 MB"),
        (words.size(999_950_000), "1.00 GB"),
        (words.amount(9_999), "9,999"),
        (words.amount(28_293), "28.3 k"),
        (words.duration(0.06), "0.06 s"),
        (words.duration(59.4), "59 s"),
        (words.duration(330), "5.5 min"),
        (words.duration(7_560), "2.1 h"),
        (words.p_text(0.0004), "< 0.001"),
        (words.p_text(0.0131), "0.013"),
        (words.p_text(0.27), "0.27"),
        (words.p_text(None), "–"),
        (words.signed(-0.0166), "−1.7"),
        (words.points(0.01), "1.0 point"),
        (words.percent(estimate([0.5])), "50.0%"),
        (words.span((17, 20, 18)), "17–20"),
    ],
)
def test_numbers_are_written_as_one_would_say_them(said: str, expected: str) -> None:
    """Three digits at most, a unit, a real minus sign."""
    assert said == expected


def test_faults_are_shares_of_what_was_asked(write_run: WriteRun) -> None:
    """Of 10 asked a round 6 answer, one of them late, and 1 is rejected: 3 never do."""
    folder = write_run("a", [0.5, 0.5], lines={"answered": 6, "late": [3], "rejected": [7]})
    ((_, (row,)),) = compare(folder).tables
    assert (row.asked, row.answered, row.late, row.rejected, row.silent) == (20, 12, 2, 2, 6)
    assert words.faults(row) == "30% silent, 10% late, 10% rejected"

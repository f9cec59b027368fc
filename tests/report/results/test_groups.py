"""Which runs belong together, which may be compared, and what happens to those that did not end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from unskew.errors import InputError
from unskew.report.results.comparison import compare
from unskew.report.results.gather import gather

WriteRun = Callable[..., Path]


def labels(path: Path | list[Path], baseline: str | None = None) -> list[list[str]]:
    """The labels of every problem's leaderboard."""
    return [[row.group.label for row in rows] for _, rows in compare(path, baseline).tables]


def test_runs_are_found_at_any_depth_and_counted_once(six_runs: Path) -> None:
    """A sweep's folder and a run in it, both named, give each run once; seeds of a group are its sample."""
    compared = compare([six_runs, six_runs / "fedavg-1"])
    (_, rows), *others = compared.tables
    assert not others
    assert len(compared.records) == 6
    assert [(row.group.label, row.group.seeds) for row in rows] == [
        ("full", (0, 1, 2)),
        ("fedavg", (0, 1, 2)),
    ]


def test_the_leaderboard_holds_the_numbers_worked_by_hand(six_runs: Path) -> None:
    """Means, deviations, the paired test and the costs of the six runs, as in the fixture's docstring."""
    (_, (full, fedavg)), *_ = compare(six_runs).tables
    assert (full.final.mean, full.final.sd) == (pytest.approx(0.87), pytest.approx(0.0264575, abs=1e-7))
    assert (fedavg.final.mean, fedavg.final.sd) == (pytest.approx(0.82), pytest.approx(0.02))
    assert fedavg.final.half == pytest.approx(0.049683, abs=1e-6)
    assert (fedavg.best.mean, fedavg.best_rounds, fedavg.final_rounds) == (0.9, (2, 2, 2), (3, 3, 3))
    assert full.difference is not None
    assert full.difference.mean == pytest.approx(0.05)
    assert full.difference.p == pytest.approx(0.013072, abs=1e-6)
    assert fedavg.is_baseline
    assert fedavg.difference is None
    assert (full.bytes.mean, full.sample_steps.mean, full.wall_s.mean) == (60_000, 300, 1.5)
    assert (full.asked, full.answered, full.rejected, full.late, full.silent) == (30, 30, 0, 0, 0)


def test_rounds_to_target_is_the_mean_over_the_seeds_that_got_there(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """0.7 is reached in round 2 by one seed, in round 3 by the next, and never by the third."""
    for seed, curve in enumerate(([0.1, 0.7, 0.6], [0.1, 0.2, 0.8], [0.1, 0.2, 0.3])):
        write_run(f"{seed}", curve, seed=seed, target=(0.7,))
    ((_, (row,)),) = compare(tmp_path).tables
    assert [(r.target, r.rounds, r.seeds, r.of) for r in row.reached] == [(0.7, 2.5, 2, 3)]


def test_without_a_target_it_is_what_the_baseline_ended_at(six_runs: Path) -> None:
    """fedavg's mean is 0.82: full gets there in its last round, and fedavg itself, at its best, in round 2."""
    ((_, (full, fedavg)),) = compare(six_runs).tables
    assert full.reached[0].target == pytest.approx(0.82)
    assert (full.reached[0].rounds, fedavg.reached[0].rounds) == (3, 2)


def test_a_label_says_what_differs_and_nothing_else(write_run: WriteRun, tmp_path: Path) -> None:
    """lr differs, so both say it; drop is said where there is some; rounds are the same and not said."""
    write_run("a", [0.5], lr=0.1)
    write_run("b", [0.6], lr=0.2)
    write_run("c", [0.4], lr=0.1, drop=0.3)
    assert labels(tmp_path) == [["fedavg · lr=0.2", "fedavg · lr=0.1", "fedavg · lr=0.1 · drop=0.3"]]


def test_what_only_watches_does_not_make_another_group(write_run: WriteRun, tmp_path: Path) -> None:
    """Targets, measurements and checkpoints leave the model as it is."""
    write_run("a", [0.5], seed=0, target=(0.4,), checkpoint=0)
    write_run("b", [0.6], seed=1, evaluate_clients=True)
    assert labels(tmp_path) == [["fedavg"]]


def test_one_method_spelled_in_two_ways_is_one_group(write_run: WriteRun, tmp_path: Path) -> None:
    """fedavg(true) and fedavg(uniform=true) are the same method."""
    write_run("a", [0.5], seed=0, method="fedavg(true)")
    write_run("b", [0.6], seed=1, method="fedavg(uniform=true)")
    assert labels(tmp_path) == [["fedavg(true)"]]


def test_different_data_is_never_ranked_together(write_run: WriteRun, tmp_path: Path) -> None:
    """An accuracy at alpha 0.1 and one at alpha 1 belong in different tables, each with its own baseline."""
    for alpha in (0.1, 1):
        for method, accuracy in (("fedavg", 0.5), ("full", 0.6)):
            write_run(f"{method}{alpha}", [accuracy * alpha], method=method, partition=f"dirichlet({alpha})")
    compared = compare(tmp_path)
    assert [problem.name for problem, _ in compared.tables] == [
        "digits · dirichlet(0.1) · 20 clients",
        "digits · dirichlet(1) · 20 clients",
    ]
    for _, rows in compared.tables:
        assert [(row.group.label, row.baseline and row.baseline.label) for row in rows] == [
            ("full", "fedavg"),
            ("fedavg", "fedavg"),
        ]
        assert rows[0].baseline is rows[1].group


def test_data_given_in_python_that_differs_is_another_problem(write_run: WriteRun, tmp_path: Path) -> None:
    """The same settings and seed on other content cannot be the same problem."""
    write_run("a", [0.5], data={"given": True, "name": "mine", "sha256": "aaaaaa11"})
    write_run("b", [0.6], data={"given": True, "name": "mine", "sha256": "bbbbbb22"})
    names = [problem.name for problem, _ in compare(tmp_path).tables]
    assert [name.split(" · ")[0] for name in names] == ["mine (aaaaaa)", "mine (bbbbbb)"]


def test_the_baseline_is_the_one_with_the_same_other_settings(write_run: WriteRun, tmp_path: Path) -> None:
    """full at lr 0.2 is compared with fedavg at lr 0.2."""
    for lr in (0.1, 0.2):
        write_run(f"fedavg{lr}", [lr], method="fedavg", lr=lr)
        write_run(f"full{lr}", [2 * lr], method="full", lr=lr)
    ((_, rows),) = compare(tmp_path).tables
    assert {row.group.label: row.baseline.label for row in rows if row.baseline} == {
        "full · lr=0.2": "fedavg · lr=0.2",
        "full · lr=0.1": "fedavg · lr=0.1",
        "fedavg · lr=0.2": "fedavg · lr=0.2",
        "fedavg · lr=0.1": "fedavg · lr=0.1",
    }


def test_with_one_method_the_first_stands_for_all(write_run: WriteRun, tmp_path: Path) -> None:
    """A sweep over lr alone is compared with its first value."""
    for lr in (0.1, 0.2):
        write_run(f"{lr}", [lr], lr=lr)
    ((_, rows),) = compare(tmp_path).tables
    assert {row.baseline.label for row in rows if row.baseline} == {"fedavg · lr=0.1"}


def test_a_baseline_can_be_named_in_any_spelling(six_runs: Path) -> None:
    """full as the baseline turns the comparison round."""
    ((_, (full, fedavg)),) = compare(six_runs, "full()").tables
    assert full.is_baseline
    assert fedavg.difference is not None
    assert fedavg.difference.mean == pytest.approx(-0.05)


def test_an_unknown_baseline_gets_the_nearest_suggested(six_runs: Path) -> None:
    """One sentence, and what to write."""
    with pytest.raises(
        InputError, match=r"^there is no baseline among these runs called 'fedavgg'; did you mean 'fedavg'\?$"
    ):
        compare(six_runs, "fedavgg")


def test_an_upper_bound_is_no_contender_and_no_default_baseline(write_run: WriteRun, tmp_path: Path) -> None:
    """centralized leads the table, full leads the headline, and full is the baseline as the first method."""
    write_run("a", [0.9], method="centralized")
    write_run("b", [0.5], method="full")
    compared = compare(tmp_path)
    ((_, rows),) = compared.tables
    assert [(row.group.label, row.group.bound) for row in rows] == [("centralized", "upper"), ("full", "")]
    assert compared.headline.title == "full reaches 50.0% global test accuracy"
    assert "The upper bound, centralized, reaches 90.0%." in compared.headline.lead
    assert rows[1].is_baseline


def test_a_run_that_was_killed_is_called_interrupted(write_run: WriteRun, tmp_path: Path) -> None:
    """It says that it is running, but nobody holds its lock; also where it did not get as far as a result."""
    write_run("a", [0.5], status="running", rounds=4)
    (tmp_path / "a" / "lock").touch()
    write_run("b", [0.5], status=None, seed=1)
    assert [record.status for record in gather(tmp_path)] == ["interrupted", "interrupted"]


def test_a_run_whose_lock_is_held_is_running(write_run: WriteRun) -> None:
    """Somebody is at it, and looking does not take the lock away."""
    folder = write_run("a", [0.5], status="running", rounds=4)
    with FileLock(folder / "lock"):
        assert [record.status for record in gather(folder)] == ["running"]
        assert [record.status for record in gather(folder)] == ["running"]


def test_a_line_cut_in_the_middle_is_left_out(write_run: WriteRun) -> None:
    """A kill while writing leaves half a line; what came before it stands."""
    folder = write_run("a", [0.5, 0.6], status="running", rounds=9)
    with open(folder / "rounds.jsonl", "a") as log:
        log.write('{"round": 3, "global_te')
    (record,) = gather(folder)
    assert (record.round, record.final["global_test_accuracy"]) == (2, 0.6)


def test_only_what_is_done_is_counted_where_something_is(write_run: WriteRun, tmp_path: Path) -> None:
    """Seed 1 stopped after one of two rounds: its 0.1 is listed but does not enter the mean."""
    write_run("a", [0.4, 0.5], seed=0)
    write_run("b", [0.1], seed=1, status="running", rounds=2)
    write_run("c", [0.2], seed=2, status="failed", rounds=2, result={"error": "ValueError: no"})
    compared = compare(tmp_path)
    ((_, (row,)),) = compared.tables
    assert (row.final.mean, row.group.seeds, row.group.complete) == (0.5, (0,), True)
    assert [record.status for record in compared.unfinished] == ["interrupted", "failed"]


def test_an_unfinished_method_is_shown_last_and_not_compared(write_run: WriteRun, tmp_path: Path) -> None:
    """What has played one of three rounds is not held against what has played all."""
    write_run("a", [0.4, 0.5, 0.6], method="fedavg")
    write_run("b", [0.9], method="full", status="running", rounds=3)
    compared = compare(tmp_path)
    ((_, rows),) = compared.tables
    assert [(row.group.label, row.group.complete) for row in rows] == [("fedavg", True), ("full", False)]
    assert rows[1].difference is not None
    assert (rows[1].difference.mean, rows[1].difference.why) == (None, "it has not finished")
    assert compared.headline.title == "fedavg reaches 60.0% global test accuracy"


def test_the_same_run_in_two_folders_counts_once(write_run: WriteRun, tmp_path: Path) -> None:
    """A repeat is no second sample."""
    write_run("a", [0.5])
    write_run("b", [0.5])
    ((_, (row,)),) = compare(tmp_path).tables
    assert (row.final.n, len(row.group.runs)) == (1, 2)


def test_a_loss_that_is_not_a_number_does_no_harm(write_run: WriteRun) -> None:
    """A diverged model logs NaN; its accuracy is a number all the same."""
    folder = write_run("a", [0.1, 0.1], lines={"global_test_loss": float("nan")})
    ((_, (row,)),) = compare(folder).tables
    assert row.final.mean == 0.1


def test_nothing_evaluated_yet_is_one_sentence(write_run: WriteRun) -> None:
    """A run that has only just begun has nothing to report."""
    folder = write_run("a", [None, None], status="running", rounds=9)
    with pytest.raises(
        InputError, match=r"^nothing has been evaluated yet in .*a; wait for the first evaluation"
    ):
        compare(folder)


def test_a_folder_without_runs_is_one_sentence(tmp_path: Path) -> None:
    """Neither a run folder nor one that holds any."""
    with pytest.raises(InputError, match=r"is not a run folder and holds none: there is no spec\.json"):
        compare(tmp_path)


def test_a_path_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """A mistyped folder."""
    with pytest.raises(InputError, match=r"^there is no run folder .*nowhere$"):
        compare(tmp_path / "nowhere")


def test_a_file_instead_of_a_folder_is_one_sentence(write_run: WriteRun) -> None:
    """Naming the log instead of its folder."""
    with pytest.raises(InputError, match="is a file; name the run folder"):
        compare(write_run("a", [0.5]) / "rounds.jsonl")


def test_another_format_version_is_one_sentence(write_run: WriteRun) -> None:
    """A folder of another version is refused, not guessed at."""
    folder = write_run("a", [0.5])
    about = json.loads((folder / "spec.json").read_text())
    (folder / "spec.json").write_text(json.dumps(about | {"format": 0}))
    with pytest.raises(InputError, match="has run format 0, this version reads"):
        compare(folder)


def test_no_runs_at_all_is_one_sentence() -> None:
    """An empty list."""
    with pytest.raises(InputError, match="name at least one run folder"):
        compare([])


def test_what_is_disclosed_is_read_from_the_log_or_from_the_method(write_run: WriteRun) -> None:
    """A finished run has logged it; for another its method says it; a part of one's own is not imported for it."""
    (done,) = gather(write_run("a", [0.5], result={"discloses": ["label counts (kld)"]}))
    (cut,) = gather(write_run("b", [0.5], status="running", rounds=3, method="centralized"))
    (own,) = gather(write_run("c", [0.5], status="running", rounds=3, method="no.such.package:Part"))
    assert done.discloses == ("label counts (kld)",)
    assert cut.discloses == ("raw samples to the server (pooled)",)
    assert own.discloses is None


def test_other_rows_or_columns_of_a_table_are_never_ranked_together(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """Where rows with gaps are dropped the test set is another one; a method alone there is ahead of nobody."""
    write_run("filled", [0.7, 0.8], method="fedavg", impute="median")
    write_run("dropped", [0.8, 0.9], method="full", impute="drop")
    assert labels(tmp_path) == [["full"], ["fedavg"]]
    assert compare(tmp_path).headline.title == "2 settings, each with one method alone: nothing to compare"


def test_a_client_column_and_its_partition_are_one_problem(write_run: WriteRun, tmp_path: Path) -> None:
    """--client site and --by site deal samples out alike, so their runs are compared."""
    write_run("client", [0.7, 0.8], method="fedavg", client="site", partition="by(site)")
    write_run("by", [0.8, 0.9], method="full", partition="by(site)")
    assert sorted(map(sorted, labels(tmp_path))) == [["fedavg", "full"]]

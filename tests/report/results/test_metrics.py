"""Reports by chosen metrics: ranks, targets and words follow the first, tables tell all, blanks are explained."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from run_folders import WriteRun
from unskew import Metric
from unskew.cli import app
from unskew.data import from_arrays
from unskew.errors import InputError
from unskew.report import write_report
from unskew.report.results.card import run_card
from unskew.report.results.comparison import compare
from unskew.report.results.tables import csv_text, latex_text
from unskew.runs.running import run


@pytest.fixture
def disagreeing(write_run: WriteRun, tmp_path: Path) -> Path:
    """full is more often right, fedavg has the lower loss and the higher F1; two seeds each.

    Losses: fedavg 0.9 then 0.4 and 0.42; full 0.8 then 0.6 and 0.66.
    """
    numbers = {"fedavg": (0.70, 0.4, 0.65), "full": (0.90, 0.6, 0.50)}
    for method, (accuracy, loss, f1) in numbers.items():
        for seed in (0, 1):
            path = write_run(f"runs/{method}-{seed}", [0.5, accuracy], method=method, seed=seed)
            lines = [json.loads(text) for text in (path / "rounds.jsonl").read_text().splitlines()]
            first = {"fedavg": 0.9, "full": 0.8}[method]
            for line, value in zip(
                lines, (first, loss * (1 + seed / (20 if method == "fedavg" else 10))), strict=True
            ):
                line |= {
                    "global_test_loss": value,
                    "global_test_macro_f1": f1,
                    "global_test_worst_class": 0.3,
                }
            (path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "runs"


def test_the_first_metric_ranks(disagreeing):
    """By accuracy full is first; by the loss, of which less is better, fedavg, and by F1, too."""
    orders = {
        name: [row.group.label for row in compare(disagreeing, metrics=name).tables[0][1]]
        for name in ("accuracy", "log_loss", "macro_f1")
    }
    assert orders == {
        "accuracy": ["full", "fedavg"],
        "log_loss": ["fedavg", "full"],
        "macro_f1": ["fedavg", "full"],
    }


def test_less_is_better_everywhere(disagreeing):
    """full's loss is 0.63 on average, fedavg's 0.41: it is behind by 0.22, in words and numbers; best is the lowest."""
    compared = compare(disagreeing, metrics=["log_loss", "accuracy"], target=0.65)
    fedavg, full = compared.tables[0][1]
    assert (fedavg.final.mean, full.final.mean) == pytest.approx((0.41, 0.63))
    assert full.difference is not None
    assert full.difference.mean == pytest.approx(0.22)
    assert full.difference.gain == pytest.approx(-0.22)
    assert fedavg.best.mean == pytest.approx(0.41)
    assert "log-loss 0.410" in compared.headline.lead
    assert "0.220 above" in compared.headline.lead
    assert [row.reached[0].seeds for row in (fedavg, full)] == [2, 1]


def test_json_and_csv_have_every_metric_under_its_name(disagreeing):
    """Final and best by the first, then the mean and spread of each."""
    compared = compare(disagreeing, metrics=["macro_f1", "log_loss"])
    told = compared.as_dict()
    assert (told["metric"], told["metrics"]) == ("global_test_macro_f1", ["macro_f1", "log_loss"])
    first = told["problems"][0]["leaderboard"][0]
    assert first["final_macro_f1_mean"] == 0.65
    assert first["metrics"]["log_loss"]["mean"] == pytest.approx(0.41)
    assert told["runs"][0]["final"] == {"accuracy": 0.7, "round": 2, "macro_f1": 0.65, "log_loss": 0.4}
    row = next(csv.DictReader(io.StringIO(csv_text(compared))))
    assert (row["macro_f1_mean"], row["final_macro_f1_mean"]) == ("0.65", "0.65")
    assert float(row["log_loss_mean"]) == pytest.approx(0.41)


def test_latex_has_a_table_of_them_with_the_best_in_bold(disagreeing):
    """Of the loss the lowest."""
    text = latex_text(compare(disagreeing, metrics=["accuracy", "log_loss"]))
    assert "Method & accuracy (\\%) & log-loss \\\\" in text
    assert "fedavg & $70.00 \\pm 0.00$ & $\\mathbf{0.410} \\pm" in text
    assert "full & $\\mathbf{90.00} \\pm 0.00$ & $0.630 \\pm" in text


def test_the_page_and_the_terminal_tell_them(disagreeing, tmp_path):
    """A table of every metric, curves of each, and captions that say what the leaderboard goes by."""
    page = tmp_path / "page.html"
    said = CliRunner().invoke(
        app, ["report", str(disagreeing), "-o", str(page), "--metrics", "macro_f1", "--metrics", "log_loss"]
    )
    assert said.exit_code == 0, said.output
    assert "global test macro F1 in %" in said.output
    assert "by every metric" in said.output
    text = page.read_text()
    assert "By every metric" in text
    assert "Global test macro F1 of the global model, in percent" in text
    assert "Global test log-loss over rounds" in text
    assert "The mean of the classes&#39; F1 scores" in text


def test_a_narrow_terminal_cuts_off_no_digit_of_a_metric(write_run, tmp_path):
    """Six metrics in 80 columns: heads are broken between their words."""
    metrics = ("accuracy", "balanced_accuracy", "macro_f1", "worst_class", "log_loss", "auc")
    path = write_run("runs/one", [0.5, 0.8], metrics=metrics)
    lines = [json.loads(text) for text in (path / "rounds.jsonl").read_text().splitlines()]
    for line in lines:
        line |= {f"global_test_{name}": 0.1234 + at / 10 for at, name in enumerate(metrics[1:4])}
        line |= {"global_test_loss": 0.4321, "global_test_auc": 0.8943}
    (path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = ["report", str(path), "-o", str(tmp_path / "page.html")]
    said = CliRunner().invoke(app, asked, env={"COLUMNS": "80"})
    assert said.exit_code == 0, said.output
    row = said.output.split("by every metric")[1].split("fedavg")[1].split("\n")[0]
    assert row.split() == ["80.00", "12.34", "22.34", "32.34", "0.432", "89.43"]


def test_old_runs_have_blanks_that_are_explained(six_runs, tmp_path):
    """Their logs have no F1; balanced accuracy and the worst class follow from the classes' accuracies."""
    compared = compare(six_runs)
    row = compared.tables[0][1][0]
    assert row.blanks == {"macro_f1": "the log is of a version that did not measure it"}
    final = 0.85, 0.86, 0.90  # and the second class is 0.1 better: their mean 0.05
    assert row.scores["balanced_accuracy"].values == pytest.approx([f + 0.05 for f in final])
    assert row.scores["worst_class"].values == pytest.approx(final)
    page = write_report(six_runs, tmp_path / "page.html").read_text()
    assert "no macro F1: the log is of a version that did not measure it" in page
    with pytest.raises(
        InputError, match="there is no macro F1 in the 6 runs: the log is of a version that did not"
    ):
        compare(six_runs, metrics="macro_f1")


def test_auc_of_ten_classes_says_what_it_is_for(write_run):
    """Whatever the log lacks."""
    path = write_run("ten", [0.5], data={"labels": list(map(str, range(10)))})
    with pytest.raises(InputError, match=r"there is no AUC in .*: AUC is for two classes, and there are 10"):
        compare(path, metrics="auc")


def test_a_run_without_the_metric_is_left_out_and_named(disagreeing, write_run):
    """Others have it."""
    write_run("runs/old", [0.5, 0.6], method="sem")
    left = compare(disagreeing, metrics="macro_f1").left_out
    assert [item.why for item in left] == [
        "it has no macro F1: the log is of a version that did not measure it"
    ]


def test_runs_say_what_their_report_goes_by(write_run, tmp_path):
    """All name the loss first: so does the report. Where they differ it is accuracy."""
    for seed in (0, 1):
        write_run(f"same/{seed}", [0.5, 0.6], seed=seed, metrics=("log_loss", "accuracy"), target=(0.45,))
    compared = compare(tmp_path / "same")
    assert [metric.name for metric in compared.records[0].metrics] == ["log_loss", "accuracy"]
    assert [goal.target for goal in compared.tables[0][1][0].reached] == [0.45]
    write_run("same/other", [0.5, 0.6], seed=2, metrics=("worst_class",))
    mixed = compare(tmp_path / "same")
    assert [metric.name for metric in mixed.records[0].metrics] == ["accuracy", "log_loss", "worst_class"]
    assert mixed.tables[0][1][0].reached == ()  # a loss is no accuracy to reach


def test_a_diverged_loss_is_a_blank(write_run, tmp_path):
    """The last round has none, so the loss ends where it last was a number, and the run is said to have diverged."""
    path = write_run("run", [0.5, 0.6, 0.1])
    lines = [json.loads(text) for text in (path / "rounds.jsonl").read_text().splitlines()]
    lines[-1]["global_test_loss"] = None
    (path / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    row = compare(path).tables[0][1][0]
    assert row.blanks["log_loss"] == "the model's outputs are not finite"
    by_loss = compare(path, metrics="log_loss").tables[0][1][0]
    assert by_loss.final_rounds == (2,)
    assert by_loss.group.counted[0].diverged


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("metrics", "f1"), "there is no metric in these runs called 'f1'"),
        (("metrics", ["accuracy", "accuracy"]), "metrics names accuracy twice"),
    ],
)
def test_metrics_that_cannot_be(six_runs, asked, said):
    """In one sentence."""
    with pytest.raises(InputError, match=said):
        compare(six_runs, **dict([asked]))


def test_a_target_is_of_the_first_metric(six_runs):
    """80 is no share; of a loss it may be anything finite."""
    with pytest.raises(InputError, match="target is a value of worst_class from 0 to 1, not 80; write"):
        compare(six_runs, metrics="worst_class", target=80)
    assert compare(six_runs, metrics="log_loss", target=2.5).tables[0][1][0].reached[0].rounds == 1


def patients() -> Any:
    rng = np.random.default_rng(0)
    y = (np.arange(80) % 5 == 0).astype(np.int64)
    x = rng.normal(size=(80, 3)).astype(np.float32) + 1.5 * y[:, None]
    return from_arrays(x, y, x, y, labels=("healthy", "ill"))


def test_own_metrics_are_reported_with_their_direction(tmp_path):
    """A cost of which less is better, given in Python: from the folder alone the report knows how to rank it."""
    cost = Metric(lambda y, guess: 5.0 * np.sum(y > guess), larger_is_better=False, help="Euro.")
    settings: dict[str, Any] = {"clients": 4, "cohort": 4, "rounds": 2, "partition": "iid", "progress": False}
    for name, lr in (("slow", 1e-6), ("fast", 0.5)):
        ended = run(
            dataset=patients(),
            metrics={"cost": cost, "auc": None},
            lr=lr,
            out=tmp_path / "runs" / name,
            **settings,
        )
    compared = compare(tmp_path / "runs")
    rows = compared.tables[0][1]
    assert [row.final.mean for row in rows] == sorted(row.final.mean for row in rows)
    assert not rows[0].metric.larger_is_better
    assert "lowest cost" in compared.headline.title or "cost" in compared.headline.lead
    card = run_card(ended)
    assert "final cost" in card
    assert "AUC" in card
    assert "Euro." in write_report(tmp_path / "runs", tmp_path / "page.html").read_text()

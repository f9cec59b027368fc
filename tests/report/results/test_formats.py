"""Every format of a report of runs, and what is refused before anything is written."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from unskew.errors import InputError
from unskew.report import run_card, write_report
from unskew.report.results.comparison import compare
from unskew.report.results.repeat import alone, whole
from unskew.report.results.tables import csv_text, escape, latex_text
from unskew.runs.experiment_file import read_toml
from unskew.runs.spec import Spec
from unskew.runs.sweep import cells

WriteRun = Callable[..., Path]


@pytest.mark.parametrize(
    ("name", "start"),
    [("a.html", b"<!doctype html>"), ("a.png", b"\x89PNG"), ("a.svg", b"<svg"), ("a.pdf", b"%PDF")],
)
def test_the_ending_chooses_the_format(six_runs: Path, tmp_path: Path, name: str, start: bytes) -> None:
    """A page, or the figure as a picture."""
    path = write_report(six_runs, tmp_path / name)
    assert path == tmp_path / name
    assert path.read_bytes().startswith(start)


def test_without_a_path_the_report_lies_in_the_folder_that_was_named(six_runs: Path) -> None:
    """One folder: in it. Another format: its usual ending."""
    assert write_report(six_runs) == six_runs / "report.html"
    assert write_report([str(six_runs)], format="latex") == six_runs / "report.tex"


def test_of_several_folders_the_report_lies_in_the_current_one(
    six_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No folder is the one."""
    monkeypatch.chdir(tmp_path)
    path = write_report([six_runs / "fedavg-0", six_runs / "fedavg-1"], format="csv")
    assert path == Path("report.csv")
    assert path.is_file()


def test_the_csv_has_a_row_a_group_and_a_number_a_column(six_runs: Path) -> None:
    """Shares of 1, unrounded, empty where there is none; names that say what they are."""
    first, second = csv.DictReader(io.StringIO(csv_text(compare(six_runs))))
    assert (first["label"], first["baseline"], first["seeds"]) == ("full", "fedavg", "0 1 2")
    assert float(first["final_accuracy_mean"]) == pytest.approx(0.87)
    assert float(first["p"]) == pytest.approx(0.013072, abs=1e-6)
    assert float(first["difference_mean"]) == pytest.approx(0.05)
    assert (second["p"], second["difference_mean"]) == ("", "")
    assert float(second["final_accuracy_interval95"]) == pytest.approx(0.049683, abs=1e-6)
    assert float(second["bytes_mean"]) == 60_000


def test_the_latex_table_is_booktabs_with_the_best_in_bold(six_runs: Path) -> None:
    """Mean ± half the interval in percent; the winner in bold."""
    text = latex_text(compare(six_runs))
    assert "\\toprule" in text
    assert (
        "full & 3 & $\\mathbf{87.00} \\pm 6.57$ & $87.00 \\pm 6.57$ & $+5.00 \\pm 2.48$ & 0.013 & 3 & "
        in text
    )
    assert "fedavg & 3 & $82.00 \\pm 4.97$ & $90.00 \\pm 0.00$ & -- & -- & 2 & 60.0 kB & 300 \\\\" in text


def test_the_latex_table_names_each_problem(write_run: WriteRun, tmp_path: Path) -> None:
    """Several problems are several parts of the table, under their names."""
    write_run("a", [0.5], partition="iid")
    write_run("b", [0.4], partition="limit_labels(2, f=0.9)")
    text = latex_text(compare(tmp_path))
    assert text.count("\\midrule") == 4  # of the leaderboard, and of every metric
    assert "\\textit{digits $\\cdot$ limit\\_labels(2, f=0.9) $\\cdot$ 20 clients}" in text


def test_latex_prints_special_characters_as_they_are() -> None:
    """Each of LaTeX's own, escaped."""
    assert escape("a_b & 50% #1 {x} ~ ^ \\ $") == (
        "a\\_b \\& 50\\% \\#1 \\{x\\} \\textasciitilde{} \\textasciicircum{} \\textbackslash{} \\$"
    )


@pytest.mark.parametrize(
    ("path", "format", "sentence"),
    [
        (
            "a.doc",
            None,
            "the report 'a.doc' ends in '.doc'; write one of .html, .png, .svg, .pdf, .csv, .tex",
        ),
        ("a", None, "the report 'a' has no ending; write one of .html, .png, .svg, .pdf, .csv, .tex"),
        ("a.txt", "latex", "the report 'a.txt' ends in '.txt'; write .tex for latex"),
        ("a.html", "csv", "the report 'a.html' ends in '.html'; write .csv for csv"),
        ("a.html", "htm", "there is no format 'htm'; did you mean 'html'?"),
    ],
)
def test_a_place_or_format_that_cannot_be_is_refused_in_one_sentence(
    six_runs: Path, tmp_path: Path, path: str, format: str | None, sentence: str
) -> None:
    """Before any work, and nothing is written."""
    with pytest.raises(InputError) as problem:
        write_report(six_runs, tmp_path / path, format=format)
    assert str(problem.value) == sentence
    assert not (tmp_path / path).exists()


def test_a_failure_leaves_the_old_report_whole(
    six_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one takes its name only when it is all there."""
    target = tmp_path / "a.csv"
    target.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(six_runs, target)
    monkeypatch.undo()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir() if "a.csv" in p.name] == ["a.csv"]


def test_the_page_says_everything_in_words_too(six_runs: Path, write_run: WriteRun, tmp_path: Path) -> None:
    """Headline, numbers, unfinished runs, disclosure and recipe are text: readable with no picture at all."""
    write_run("sweep/cut", [0.3], method="fedavg", seed=7, status="running", rounds=3)
    text = unescape(write_report(six_runs, tmp_path / "a.html").read_text())
    for said in (
        "<h1>full beats fedavg by 5.0 points</h1>",
        "Global test accuracy of the global model, in percent",
        "<b>87.00</b>",
        "0.013",
        "1 of 7 runs did not finish",
        "fedavg, seed 7: interrupted after round 1 of 3, last accuracy 30.0% (round 1)",
        "Every client that was asked answered in time",
        "nothing more",
        'seed = "0-2"',
        "unskew sweep experiment.toml --out runs/again",
        'aria-label="Learning curves.',
    ):
        assert said in text, said


def test_the_page_loads_nothing_from_elsewhere(six_runs: Path, tmp_path: Path) -> None:
    """No script, style, font or image of another address."""
    text = write_report(six_runs, tmp_path / "a.html").read_text()
    assert not re.findall(r"<(?:link|img|iframe)\b", re.sub(r"<script.*?</script>", "", text, flags=re.S))
    assert not re.findall(r"<script[^>]*\bsrc=", text)
    assert "@import" not in text


def test_names_cannot_break_the_page(write_run: WriteRun, tmp_path: Path) -> None:
    """A class, an error or a title with markup in it is shown, not obeyed."""
    data = {"labels": ["</script><b>", "&amp;", "c"]}
    write_run("runs/a", [0.5], data=data)
    write_run("runs/b", [0.5], seed=1, data=data, status="failed", result={"error": "<i>no</i>"})
    text = write_report(tmp_path / "runs", tmp_path / "a.html", title="<u>T</u>").read_text()
    assert "<h1>&lt;u&gt;T&lt;/u&gt;</h1>" in text
    assert "<i>no</i>" not in text
    assert "</script><b>" not in text
    assert "fedavg reaches 50.0% global test accuracy." in text  # the headline still stands below the title


def test_the_same_runs_give_the_same_page(six_runs: Path, tmp_path: Path) -> None:
    """No date and no chance in it: two reports can be compared."""
    first, second = (write_report(six_runs, tmp_path / f"{n}.html").read_bytes() for n in "ab")
    assert first == second


def test_the_recipe_of_a_grid_makes_the_same_runs_again(six_runs: Path, tmp_path: Path) -> None:
    """Written to a file and read as a sweep, it gives every spec of the runs and no other."""
    compared = compare(six_runs)
    recipe = whole([group for problem, _ in compared.tables for group in problem.groups])
    assert recipe is not None
    assert specs_of(recipe.toml, tmp_path) == {record.spec for record in compared.records}


def test_the_recipe_of_a_group_makes_its_runs_again(write_run: WriteRun, tmp_path: Path) -> None:
    """Seeds that are no range are listed; what is no grid has a recipe for each group alone."""
    for seed in (1, 4):
        write_run(f"a{seed}", [0.5], seed=seed, lr=0.3, target=(0.5, 0.6), momentum=0.9, nesterov=True)
    write_run("b", [0.5], method="full")
    compared = compare(tmp_path)
    ((problem, _),) = compared.tables
    assert whole(problem.groups) is None
    both, one = sorted(problem.groups, key=lambda group: group.method)
    assert "seed = [1, 4]" in alone(both).toml
    assert specs_of(alone(both).toml, tmp_path) == {record.spec for record in both.runs}
    (tmp_path / "one.toml").write_text(alone(one).toml)
    assert Spec.of(read_toml(tmp_path / "one.toml")[0]) == one.runs[0].spec


def specs_of(toml: str, folder: Path) -> set[Spec]:
    """What a sweep of this experiment file would run."""
    (folder / "experiment.toml").write_text(toml)
    settings, grid = read_toml(folder / "experiment.toml")
    return {cell.spec for cell in cells(settings, grid, folder)}


def test_a_recipe_says_what_it_cannot_bring_along(write_run: WriteRun) -> None:
    """Data that was given in Python has to be given again."""
    folder = write_run("a", [0.5], data={"given": True, "own_model": True})
    ((problem, _),) = compare(folder).tables
    notes = " ".join(alone(problem.groups[0]).notes)
    assert "dataset=... in unskew.run()" in notes
    assert "model=... in unskew.run()" in notes


def test_everything_as_json_is_plain_and_finite(six_runs: Path) -> None:
    """What --json prints can be read by any JSON reader."""
    text = json.dumps(compare(six_runs).as_dict(), allow_nan=False)
    said = json.loads(text)
    assert said["metric"] == "global_test_accuracy"
    assert [run["status"] for run in said["runs"]] == ["done"] * 6
    assert said["problems"][0]["leaderboard"][0]["method"] == "full"


def test_importing_unskew_loads_no_charts() -> None:
    """Training needs none, and they take half a second."""
    code = "import unskew, unskew.report, sys; assert not {'altair', 'pandas', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_run_in_memory_has_a_card_and_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python without a folder: numbers for the notebook, and a page with the partition's picture."""
    import unskew

    monkeypatch.chdir(tmp_path)
    ended = unskew.run(dataset="digits", rounds=2, clients=10, cohort=3, progress=False)
    card = run_card(ended)
    accuracy = ended.result["final"]["accuracy"]
    assert f"{accuracy:.2%}" in card
    assert "2 of 2" in card
    assert "<polyline" in card
    assert ended._repr_html_() == card
    page = ended.report()
    assert page == Path("report.html")
    text = page.read_text()
    assert f"fedavg reaches {accuracy:.1%} global test accuracy" in text
    assert "of the 10 classes on average" in text  # the title of the partition's picture
    assert "1, in memory" in text


def test_a_run_with_a_folder_reports_into_it(tmp_path: Path) -> None:
    """The folder of a real run is read as the hand-written ones are."""
    import unskew

    ended = unskew.run(
        dataset="digits", rounds=2, clients=10, cohort=3, drop=0.5, out=tmp_path / "a", progress=False
    )
    page = ended.report()
    assert page == tmp_path / "a" / "report.html"
    ((_, (row,)),) = compare(tmp_path).tables
    assert row.final.mean == ended.result["final"]["accuracy"]
    assert row.asked == ended.result["totals"]["asked"]
    assert row.answered == ended.result["totals"]["answered"]

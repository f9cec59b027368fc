"""Colours belong to methods, the same in every report; figures are as wide as asked; methods can be given labels."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import unskew
from unskew.cli import main
from unskew.errors import InputError
from unskew.report import write_report
from unskew.report.results.comparison import compare
from unskew.report.results.look import KNOWN, colour_of, styles
from unskew.report.results.write import pixels
from unskew.runs.spec import Spec

WriteRun = Callable[..., Path]
OWN = "mine.parts:Softened(power=0.3)"


def looks(path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """(colour, dash) of every label of a report."""
    made = styles([rows for _, rows in compare(path).tables])
    return {label: (style.colour, tuple(style.dash)) for label, style in made.items()}


def test_a_method_has_its_colour_whoever_else_is_there_and_whoever_wins(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """The same three methods, in another order of merit and beside others, also one of one's own."""
    methods = ("sem", "fedavg", OWN)
    for at, method in enumerate(methods):
        write_run(f"one/{at}", [0.5 + at / 10], method=method)
        write_run(f"two/{at}", [0.5 - at / 10], method=method)
    for at, method in enumerate(("scaffold+sem", "fedprox(mu=0.1)", "kld", "flea(dense1)")):
        write_run(f"two/other{at}", [0.7 - at / 10], method=method)
    one, two = looks(tmp_path / "one"), looks(tmp_path / "two")
    assert (
        {m: one[m][0] for m in methods}
        == {m: two[m][0] for m in methods}
        == {m: colour_of(m) for m in methods}
    )
    assert len(set(two.values())) == len(two)  # and no two lines look alike


def test_a_colour_is_the_same_on_another_machine() -> None:
    """It hangs on no process: Python's own hash of a text would."""
    code = f"from unskew.report.results.look import colour_of; print(colour_of({OWN!r}))"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.strip() == colour_of(OWN)


def test_spelling_and_values_keep_the_hue() -> None:
    """fedprox in any spelling of its default is one colour, and none of the others' is fedavg's."""
    assert colour_of("fedavg") == colour_of("fedavg()") == KNOWN["fedavg"]
    assert colour_of("fedprox") == KNOWN["fedprox"]
    assert len(set(KNOWN.values())) == len(KNOWN)


def test_one_method_under_several_settings_has_shades_of_its_colour(
    write_run: WriteRun, tmp_path: Path
) -> None:
    """Three learning rates: dark, as it is, light, in their order whatever came out."""
    for lr, accuracy in ((0.1, 0.5), (0.2, 0.9), (0.3, 0.7)):
        write_run(f"{lr}", [accuracy], lr=lr)
    made = looks(tmp_path)
    assert [made[f"fedavg · lr={lr}"][0] for lr in (0.1, 0.2, 0.3)] == ["#00446B", "#0072B2", "#66AAD1"]


def test_a_label_of_the_run_names_its_method_everywhere(write_run: WriteRun, tmp_path: Path) -> None:
    """In the headline, the leaderboard, the table of costs, CSV and LaTeX; the expression stays in JSON and recipes."""
    for seed in (0, 1):
        write_run(f"runs/own-{seed}", [0.5, 0.6 + seed / 50], method=OWN, method_label="ours", seed=seed)
        write_run(f"runs/fedavg-{seed}", [0.4, 0.5 + seed / 100], seed=seed)
    compared = compare(tmp_path / "runs", target=0.5)
    assert compared.headline.title.startswith("ours beats fedavg")
    row = compared.as_dict()["problems"][0]["leaderboard"][0]
    assert (row["label"], row["method"]) == ("ours", OWN)
    page = write_report(tmp_path / "runs", tmp_path / "a.html", target=0.5).read_text()
    told, repeat = page.split('id="repeat"')
    assert "Softened" not in told
    assert "Softened" in repeat
    assert "\nours & 2 &" in write_report(tmp_path / "runs", tmp_path / "a.tex").read_text()


def test_a_label_of_the_report_overrules(write_run: WriteRun, tmp_path: Path) -> None:
    """By the method in any spelling, on the command line with = inside its brackets too."""
    write_run("a", [0.5], method="fedprox(mu=0.5)", method_label="mine")
    write_run("b", [0.4])
    ((_, (first, _)),) = compare(tmp_path, labels={"fedprox(0.5)": "FedProx"}).tables
    assert first.group.label == "FedProx"
    table = tmp_path / "a.csv"
    assert main(["report", str(tmp_path), "--label", "fedprox(mu=0.5)=Prox = 1/2", "-o", str(table)]) == 0
    assert "Prox = 1/2" in table.read_text()


def test_two_methods_of_one_label_are_told_apart(write_run: WriteRun, tmp_path: Path) -> None:
    """Else one line of a chart would be two methods."""
    write_run("a", [0.5], method="fedprox(mu=0.5)", method_label="ours")
    write_run("b", [0.4], method="sem", method_label="ours")
    assert set(looks(tmp_path)) == {"ours (fedprox(mu=0.5))", "ours (sem)"}


def test_a_run_in_python_takes_a_label(tmp_path: Path) -> None:
    """method_label; label itself is the column of a table, and where there is none the sentence says which is meant."""
    settings = {"dataset": "digits", "clients": 5, "cohort": 2, "rounds": 1, "progress": False}
    ended = unskew.run(method="fedavg", method_label="ours", **settings)
    assert "ours reaches" in write_report(ended, tmp_path / "a.html").read_text()
    with pytest.raises(InputError, match="what reports call the method is method_label"):
        unskew.run(method="fedavg", label="ours", **settings)
    with pytest.raises(InputError, match='method_label is a short text such as "ours"'):
        Spec(method_label=" ")


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ({"fedavgg": "x"}, "there is no method among these runs called 'fedavgg'; did you mean 'fedavg'?"),
        ({"fedavg": " "}, "the label of fedavg must be a short text, not ' '"),
    ],
)
def test_a_label_that_cannot_be_is_one_sentence(
    six_runs: Path, labels: dict[str, str], sentence: str
) -> None:
    """Before anything is written."""
    with pytest.raises(InputError) as problem:
        write_report(six_runs, labels=labels)
    assert str(problem.value) == sentence
    assert not (six_runs / "report.html").exists()


@pytest.mark.parametrize("width", [1300, 640, "3.3in"])
def test_a_png_is_as_wide_as_asked(six_runs: Path, tmp_path: Path, width: int | str) -> None:
    """Pixels are those of the file; an inch has 192. Narrow or wide, to the pixel or two."""
    path = write_report(six_runs, tmp_path / "a.png", width=width)
    wanted = 3.3 * 192 if width == "3.3in" else width
    assert struct.unpack(">I", path.read_bytes()[16:20])[0] == pytest.approx(wanted, abs=2.1)


@pytest.mark.parametrize("width", ["84mm", "7in"])
def test_svg_and_pdf_are_as_wide_as_asked(six_runs: Path, tmp_path: Path, width: str) -> None:
    """96 pixels an inch in the one, 72 points in the other."""
    inches = {"84mm": 84 / 25.4, "7in": 7.0}[width]
    svg = write_report(six_runs, tmp_path / "a.svg", width=width).read_text()
    found = re.search(r'<svg[^>]* width="([\d.]+)"', svg)
    assert found is not None
    assert float(found[1]) == pytest.approx(96 * inches, abs=1.1)
    pdf = write_report(six_runs, tmp_path / "a.pdf", width=width).read_bytes()
    box = re.search(rb"/MediaBox\s*\[\s*0\s+0\s+([\d.]+)", pdf)
    assert box is not None
    assert float(box[1]) == pytest.approx(72 * inches, abs=1.1)


@pytest.mark.parametrize(
    ("width", "kind", "sentence"),
    [
        ("84mm", "html", "width is that of a figure (png, svg, pdf), and this is html; leave it out"),
        (
            "wide",
            "pdf",
            "width is a number of pixels or has a unit (px, in, cm, mm, pt), such as 84mm, not wide",
        ),
        ("-5", "pdf", "width is a number of pixels or has a unit (px, in, cm, mm, pt), such as 84mm, not -5"),
        ("1in", "svg", "a figure can be 2.71in (260 pixels) to 41.7in (4000 pixels) wide, not 1in"),
        (300, "png", "a figure can be 2.71in (520 pixels) to 41.7in (8000 pixels) wide, not 300"),
    ],
)
def test_a_width_that_cannot_be_is_one_sentence(width: int | str, kind: str, sentence: str) -> None:
    """What is wrong and what to write."""
    with pytest.raises(InputError) as problem:
        pixels(width, kind)
    assert str(problem.value) == sentence


def test_a_spread_that_is_none_is_one_sentence(six_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ci or sd."""
    assert main(["report", str(six_runs), "--spread", "se"]) == 2
    assert "there is no spread 'se'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spread", "meaning"), [("ci", "half the 95% interval"), ("sd", "the standard deviation")]
)
def test_one_output_has_one_meaning_of_plus_minus(
    six_runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spread: str, meaning: str
) -> None:
    """full ends at 87.00 with sd 2.65 and half an interval of 6.57, full less fedavg at 5.00 with 1.00 and 2.48."""
    shown, other = {"ci": (("6.57", "2.48"), "2.65"), "sd": (("2.65", "1.00"), "6.57")}[spread]
    assert main(["report", str(six_runs), "--spread", spread, "-o", str(tmp_path / "a.html")]) == 0
    said = [capsys.readouterr().out, (tmp_path / "a.html").read_text()]
    assert main(["report", str(six_runs), "--spread", spread, "-o", str(tmp_path / "a.tex")]) == 0
    said.append((tmp_path / "a.tex").read_text().replace("\\pm", "±"))
    for text in said:
        plain = re.sub(r"<script.*?</script>|<[^>]*>", "", text, flags=re.S)
        assert f"± {shown[0]}" in plain
        assert f"± {other}" not in plain
    assert f"± {shown[1]}" in said[1]
    assert f"± {shown[1]}" in said[2]
    assert meaning in said[2]
    assert meaning in said[1]

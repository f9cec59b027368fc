"""``unskew partition``: made, shown, drawn, saved; bad input is one sentence and exit code 2."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from unskew.cli import main
from unskew.data import load
from unskew.data.partition import Partition


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("UNSKEW_DATA_FOLDER", str(tmp_path))


def table(path: Path, rows: int = 60, first: str = "0.5") -> None:
    lines = ["height,diagnosis,hospital,region"]
    lines += [
        f"{first if i == 0 else i + 0.5},{('flu', 'cold')[i % 3 == 0]},{i % 4},r{i % 2}" for i in range(rows)
    ]
    path.write_text("\n".join(lines) + "\n")


def test_a_partition_is_shown_with_its_counts_and_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    """The headline, the counts of ten clients, the EMD, and what made it."""
    assert main(["partition", "digits", "limit_labels(2, f=0.9)", "--clients", "10"]) == 0
    shown = capsys.readouterr().out
    for word in (
        "Severe label skew",
        "EMD of the system",
        "1.44",
        "limit_labels(t=2, f=0.9",
        "sha256",
        "by chance",
    ):
        assert word in shown


def test_what_is_saved_is_what_python_makes(tmp_path: Path) -> None:
    """The file holds the same partition as the library call, and no other file is left."""
    assert (
        main(["partition", "digits", "dirichlet(0.3)", "--clients", "20", "--seed", "3", "-o", "p.npz"]) == 0
    )
    saved = Partition.load("p.npz", load("digits"))
    assert saved.clients == 20
    assert saved.record["seed"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["p.npz"]


def test_json_is_one_object_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Every promised key, and the record of the partition."""
    assert main(["partition", "digits", "iid", "--clients", "10", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    for key in ("emd", "emd_per_client", "sparsity", "scarcity", "kld", "jsd", "gini", "entropy", "sizes"):
        assert key in told
    assert told["clients"] == 10
    assert told["partition"]["expression"] == "iid"


@pytest.mark.parametrize("suffix", ["html", "png", "svg", "pdf"])
def test_a_picture_is_drawn_in_any_format(tmp_path: Path, suffix: str) -> None:
    """By the ending of its name, replacing what was there."""
    picture = tmp_path / f"p.{suffix}"
    picture.write_text("old")
    assert main(["partition", "digits", "iid", "--clients", "5", "--picture", picture.name]) == 0
    assert picture.stat().st_size > 5000
    assert list(tmp_path.iterdir()) == [picture]


def test_scarcity_options_reach_the_partition(capsys: pytest.CaptureFixture[str]) -> None:
    """Twenty clients of thirty samples on average: 600 used."""
    given = ["--clients", "20", "--samples-per-client", "30", "--min-samples", "5", "--json"]
    assert main(["partition", "digits", "dirichlet(0.1)", *given]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["samples"] == 600
    assert told["sizes"]["min"] >= 5


def test_an_emd_is_solved_for(capsys: pytest.CaptureFixture[str]) -> None:
    """A family named without its skew finds it."""
    assert main(["partition", "digits", "dirichlet", "--emd", "1.2", "--clients", "20", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["emd"] == pytest.approx(1.2, abs=0.01)


def test_solve_lists_the_thesis_settings(capsys: pytest.CaptureFixture[str]) -> None:
    """EMD 1.4 with ten classes: ll(1, 0.78), ll(2, 0.88) and ll(3, 1.0) (thesis, table 4.3)."""
    assert main(["partition", "--solve", "1.4", "--classes", "10", "--json"]) == 0
    found = {s["partition"]: s["emd"] for s in json.loads(capsys.readouterr().out)["solutions"]}
    assert {"limit_labels(t=1, f=0.7778)", "limit_labels(t=2, f=0.875)", "limit_labels(t=3, f=1.0)"} <= set(
        found
    )
    assert all(emd == pytest.approx(1.4, abs=0.005) for emd in found.values())
    assert main(["partition", "--solve", "1.4", "--classes", "10"]) == 0
    assert "limit_labels(t=3, f=1.0)" in capsys.readouterr().out


def test_a_column_of_an_own_table_makes_the_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A numeric column is told apart from the features by being named in by(...)."""
    table(tmp_path / "t.csv")
    assert main(["partition", "t.csv", "by(hospital)", "--label", "diagnosis", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["clients"] == 4


BAD = {
    "unknown data set": (["digitz", "iid", "--clients", "5"], "did you mean 'digits'"),
    "unknown family": (["digits", "dirichlt(0.1)", "--clients", "5"], "did you mean 'dirichlet'"),
    "too many values": (["digits", "dirichlet(1, 2, 3, 4)", "--clients", "5"], "takes at most"),
    "too few values": (["digits", "dirichlet", "--clients", "5"], "lacks 'alpha'"),
    "alpha of 0": (["digits", "dirichlet(0)", "--clients", "5"], "must be above 0"),
    "f beyond 1": (["digits", "limit_labels(2, f=1.4)", "--clients", "5"], "between 0 and 1"),
    "t beyond M": (["digits", "limit_labels(12)", "--clients", "5"], "only 10 classes"),
    "no clients": (["digits", "iid"], "--clients 20"),
    "no partition": (["digits"], "add a partition"),
    "no data": ([], "which data?"),
    "too many clients": (["digits", "iid", "--clients", "99999"], "--min-samples 0"),
    "too many samples": (
        ["digits", "iid", "--clients", "20", "--samples-per-client", "900"],
        "--samples-per-client 71",
    ),
    "no folder": (["digits", "iid", "--clients", "5", "-o", "no/p.npz"], "the folder 'no'"),
    "not an npz": (["digits", "iid", "--clients", "5", "-o", "p.txt"], "write -o FILE.npz"),
    "a folder": (["digits", "iid", "--clients", "5", "-o", "folder.npz"], "is a folder"),
    "unknown picture": (
        ["digits", "iid", "--clients", "5", "--picture", "p.jpg"],
        ".html, .png, .svg or .pdf",
    ),
    "no picture folder": (["digits", "iid", "--clients", "5", "--picture", "no/p.png"], "the folder 'no'"),
    "EMD out of reach": (["digits", "limit_labels", "--clients", "20", "--emd", "1.95"], "to 1.8"),
    "solve without classes": (["--solve", "1.4"], "--classes 10"),
    "solve with a family": (["digits", "iid", "--solve", "1.4"], "write --emd 1.4"),
    "solve with classes counted": (
        ["digits", "--classes", "10", "--solve", "1.4"],
        "leave out one of the two",
    ),
    "solve a share of nothing": (["--classes", "10", "--solve", "1.4", "--fraction", "0.5"], "none is given"),
    "solve beyond 2": (["--solve", "3", "--classes", "10"], "between 0 and 2"),
    "classes without solve": (["digits", "iid", "--classes", "10"], "goes with --solve"),
    "label of no table": (["digits", "iid", "--clients", "5", "--label", "x"], "is none"),
    "no label column": (["t.csv", "iid", "--clients", "5"], "--label and one of"),
    "wrong label column": (
        ["t.csv", "iid", "--clients", "5", "--label", "diagnos"],
        "did you mean 'diagnosis'",
    ),
    "NaN features": (["nan.csv", "iid", "--clients", "5", "--label", "diagnosis"], "NaN"),
    "no such file": (["gone.csv", "iid", "--clients", "5"], "there is no file"),
}


@pytest.mark.parametrize(("words", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_sentence(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the sentence on standard error, nothing on standard output, nothing written."""
    table(tmp_path / "t.csv")
    table(tmp_path / "nan.csv", first="nan")
    (tmp_path / "folder.npz").mkdir()
    before = sorted(tmp_path.iterdir())
    assert main(["partition", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_failed_command_keeps_the_old_file(tmp_path: Path) -> None:
    """Bad input never touches a file that is there."""
    (tmp_path / "p.npz").write_text("old")
    assert main(["partition", "digits", "dirichlet(-1)", "--clients", "5", "-o", "p.npz"]) == 2
    assert (tmp_path / "p.npz").read_text() == "old"


def test_a_partition_is_not_saved_over_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``-o own.npz`` is easily typed, and the samples would be gone."""
    np.savez(tmp_path / "own.npz", x=np.random.default_rng(0).normal(size=(30, 3)), y=np.arange(30) % 3)
    before = (tmp_path / "own.npz").read_bytes()
    for data in ("own.npz", "./own.npz(test=0.5)"):
        assert main(["partition", data, "iid", "--clients", "3", "-o", "own.npz"]) == 2
        said = "error: own.npz is the data that is read, and would be lost; write to another file"
        assert capsys.readouterr().err.strip() == said
    assert (tmp_path / "own.npz").read_bytes() == before

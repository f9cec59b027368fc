"""``unskew diagnose``: the question answered in one command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from unskew.cli import main


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def visits(tmp_path: Path) -> str:
    """Four hospitals, each with one illness: words, so that the column splits without being named."""
    random = np.random.default_rng(0)
    rows = [f"{random.normal():.3f},ill{k},hospital {k}" for k in range(4) for _ in range(50)]
    (tmp_path / "visits.csv").write_text("\n".join(["height,label,hospital", *rows]) + "\n")
    return "visits.csv"


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["diagnose", *words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


def test_digits_are_split_by_default_and_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Data without a client column: dirichlet(0.1) over 100 clients, named."""
    assert main(["diagnose", "digits"]) == 0
    shown = capsys.readouterr().out
    assert "no partition was named, so dirichlet(0.1) over 100 clients" in shown
    for word in ("What to try", "thesis, figures 3.4 and 3.5", "sem", "discloses", "SEM, table II", "FLea"):
        assert word in shown


def test_one_client_is_one_client(capsys: pytest.CaptureFixture[str]) -> None:
    """Not "1 clients", in no line."""
    assert main(["diagnose", "digits", "--clients", "1"]) == 0
    shown = capsys.readouterr().out
    assert "over 1 client;" in shown
    assert "· 1 client ·" in shown
    assert "1 clients" not in shown


def test_json_holds_numbers_record_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    """One object on standard output and nothing beside it."""
    found = told(capsys, "digits", "--partition", "dirichlet(0.5)", "--clients", "20")
    assert {"emd", "emd_per_client", "sparsity", "scarcity", "kld", "jsd", "gini", "entropy", "clients", "samples",
            "classes", "sizes", "partition", "advice"} <= found.keys()  # fmt: skip
    assert found["clients"] == 20
    assert {a["part"] for a in found["advice"]} >= {
        "sem",
        "phase_shift",
        "fedaug",
        "kld",
        "oversample",
        "daca",
        "flea",
    }


def test_the_client_column_of_own_data_is_used(visits: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Four hospitals with an illness each: EMD 2 - 2/4 = 1.5, all of them single-class."""
    found = told(capsys, visits)
    assert found["clients"] == 4
    assert found["emd"] == pytest.approx(1.5)
    assert main(["diagnose", visits]) == 0
    assert "clients are the values of 'hospital'" in capsys.readouterr().out


def test_of_several_columns_one_must_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The choices are named; choosing one works."""
    rows = [f"{i},{i % 2},person {i % 3},room {i % 5}" for i in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["x,label,person,room", *rows]) + "\n")
    assert main(["diagnose", "t.csv"]) == 2
    assert "person or room; add --by person" in capsys.readouterr().err
    assert told(capsys, "t.csv", "--by", "room")["clients"] == 5
    assert told(capsys, "t.csv", "--client", "person")["clients"] == 3


def test_arrays_in_a_file_are_split_by_their_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An .npz with x, y and one more array of one value a sample."""
    who = np.repeat(np.arange(6), 20)
    np.savez(tmp_path / "own.npz", x=np.zeros((120, 4), np.float32), y=who % 3, who=who)
    assert told(capsys, "own.npz")["clients"] == 6


def test_a_saved_partition_is_diagnosed_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """Saved, loaded, and the same EMD."""
    assert main(["partition", "digits", "q(0.7)", "--clients", "10", "-o", "p.npz", "--json"]) == 0
    saved = json.loads(capsys.readouterr().out)
    assert told(capsys, "digits", "--partition", "p.npz")["emd"] == saved["emd"]


def test_the_report_is_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One HTML file with the pictures, the meaning and the sources."""
    assert main(["diagnose", "digits", "-o", "report.html"]) == 0
    assert "report written to report.html" in capsys.readouterr().out
    text = (tmp_path / "report.html").read_text()
    for word in ("What the numbers mean", "What to try", "Sources", "data-chart"):
        assert word in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "which data?"),
        (["digits", "--by", "person"], "digits has no column 'person'"),
        (["digits", "--partition", "iid", "--by", "person"], "--partition and --by both"),
        (["digits", "--partition", "iid"], "--clients 20"),
        (["digits", "--partition", "gone.npz"], "gone.npz"),
        (["digits", "-o", "r.pdf"], "write -o REPORT.html"),
        (["digits", "-o", "no/r.html"], "the folder 'no'"),
        (["digits", "--clients", "0"], "clients must be at least 1, not 0"),
        (["visits.csv", "--label", "illness"], "no label column 'illness'"),
        (["visits.csv", "--by", "hospitl"], "did you mean 'hospital'"),
    ],
)
def test_bad_input_is_one_sentence(
    words: list[str], said: str, visits: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line on standard error, nothing else anywhere."""
    before = sorted(tmp_path.iterdir())
    assert main(["diagnose", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.strip().splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_measuring_needs_neither_torch_nor_a_drawing_library() -> None:
    """Start-up stays fast: training and drawing are imported only when asked for."""
    code = (
        "import sys; from unskew.cli import main; "
        "assert main(['diagnose', 'digits', '--json']) == 0; "
        "sys.exit(bool({'torch', 'altair', 'vl_convert'} & sys.modules.keys()))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_readmes_diagnosis_agrees_with_the_demo() -> None:
    """As planned there: SEM is to be tried, two phases of five are not, and nobody has what FedAug would augment."""
    from unskew.cli.demo_experiment import diagnosis

    advised = {advice.part: advice for advice in diagnosis().advice}
    assert advised["sem"].fit == "try"
    assert advised["phase_shift"].fit == advised["fedaug"].fit == "no"
    assert "a cohort has 10" in advised["phase_shift"].why


def test_the_plan_of_a_diagnosis_is_checked_as_a_run_checks_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The same sentence for two budgets at once."""
    assert main(["diagnose", "digits", "--epochs", "2", "--steps", "3"]) == 2
    assert "epochs and steps both set the local budget; keep one" in capsys.readouterr().err

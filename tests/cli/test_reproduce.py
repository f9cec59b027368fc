"""``unskew reproduce``: what is refused before anything runs, what failed, and what is shown at 80 columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from unskew.cli import main, stopping
from unskew.cli.sweep import Teller
from unskew.reproduce.running import read_kept


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--cells fedadam", "there is no EXHIBIT; name one that `unskew reproduce` lists, or leave --cells out"),
        ("--rounds 2", "or leave --rounds out"),
        ("--draw x.png", "or leave --draw out"),
        ("--show", "or leave --show out"),
        ("--quick --rounds 2", "--quick has settings of its own; leave --rounds out"),
        ("digits-steps --quick --cells fedadam", "--quick has settings of its own; leave --cells out"),
        ("digits-steps --show --rounds 2", "--show runs nothing; leave --rounds out"),
        ("digits-steps --show --cells digits/fedadm", "there is no cell of digits-steps 'digits/fedadm'"),
        ("daca-seconds --device cpu", "daca-seconds has no cells, only rows that are made on a CPU; leave --device"),
        ("daca-seconds --precision bf16", "leave --precision out"),
        ("daca-seconds -j 0", "leave --processes out"),
        ("daca-seconds --cells a", "leave --cells out"),
        ("daca-clusters --rounds 5", "the rows of daca-clusters are not trained; leave --rounds out"),
        ("daca-seconds --rounds 5", "the rows of daca-seconds are not trained; leave --rounds out"),
        ("thesis-table5.1 --seeds 0-2", "the rows of thesis-table5.1 are not drawn by seeds; leave --seeds out"),
        ("balanced-digits --data-folder x", "are not read from files; leave --data-folder out"),
        ("digits-steps -j 0", "processes must be at least 1, not 0"),
        ("digits-steps --draw x.png", "--draw draws one group: add --cells and one of digits, fedlc"),
        ("digits-steps --cells digits/fedyogi --draw x.txt", "the picture 'x.txt' ends in '.txt'"),
        ("digits-steps --cells fedyogi --draw x/y/z.svg", "the folder 'x/y' for the picture does not exist"),
        ("seol-kim-round --draw x.png", "the picture of seol-kim-round can only be drawn as .svg"),
        ("digits-steps --out file", "file is a file; name a folder for the runs by --out"),
        ("digits-steps --show --out file/deeper", "file is a file; name a folder for the runs by --out"),
    ],
)  # fmt: skip
def test_what_would_be_in_vain_is_refused_at_once(words: str, said: str, capsys) -> None:
    """In one sentence, with exit code 2, and nothing is written."""
    Path("file").write_text("")
    assert main(["reproduce", *words.split()]) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.usefixtures("quick_sweeps")
def test_a_cell_that_names_its_group_is_drawn(capsys) -> None:
    """The method and its base; and a run of one round is told as such beside the book's."""
    words = ["reproduce", "digits-steps", "--cells", "digits/fedyogi", "--seeds", "0", "--rounds", "1"]
    assert main([*words, "--draw", "yogi.svg", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["verdict"], one["runs"]) == ("1 of 40 rounds", "here")
    assert {name for name in ("fedavg", "fedyogi", "fedadam") if name in Path("yogi.svg").read_text()} == {
        "fedavg",
        "fedyogi",
    }
    assert main(["reproduce", "digits-steps", "--show", "--json"]) == 0
    shown = {one["method"]: one for one in json.loads(capsys.readouterr().out)}
    assert shown.pop("fedyogi") == one
    assert {other["runs"] for other in shown.values()} == {"the book"}
    assert round(shown["fedavgm"]["end"]["mean"], 1) == 0.7  # as before: not less a FedAvg of one round
    assert {other["end"]["seeds"] for other in shown.values()} == {3, 5}


@pytest.mark.usefixtures("quick_sweeps")
def test_a_failed_run_says_why_and_no_number_stands_in_for_it(capsys) -> None:
    """As of a sweep: exit code 1 and the reason; the other run's line is kept."""
    broken = Path("runs/digits/method=fedadam,seed=0")
    broken.mkdir(parents=True)
    (broken / "spec.json").write_text("no spec")
    words = [
        "reproduce",
        "digits-steps",
        "--cells",
        "fedadam",
        "--seeds",
        "0",
        "--rounds",
        "1",
        "--out",
        "runs",
    ]
    assert main(words) == 1
    shown = capsys.readouterr().out
    assert "failed" in shown
    assert "digits/method=fedadam,seed=0: " in shown
    assert "spec.json" in shown
    assert main([*words, "--json"]) == 1
    one, problem = json.loads(capsys.readouterr().out)
    assert (one["verdict"], one["best"], one["end"]) == ("failed", None, None)
    assert "spec.json" in problem["error"]
    assert [line["method"] for line in read_kept(Path("runs"))] == ["fedavg"]


def test_a_damaged_file_of_results_is_named_and_left_alone(capsys) -> None:
    """By file and line, before anything is run; nothing of it is lost."""
    Path("runs").mkdir()
    file = Path("runs/results.jsonl")
    file.write_bytes(b'\xff{"exhibit"\n')
    for more in (["--show"], ["--seeds", "0"]):
        assert main(["reproduce", "digits-steps", "--out", "runs", *more]) == 2
        assert "runs/results.jsonl, line 1 is no result" in capsys.readouterr().err
    assert file.read_bytes() == b'\xff{"exhibit"\n'
    assert list(Path("runs").iterdir()) == [file]


def test_methods_are_whole_at_80_columns(capsys, monkeypatch) -> None:
    """Names are folded, not cut, and no zero has a minus sign."""
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["reproduce", "digits-steps", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert "-0.0" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_an_interrupt_says_how_to_go_on(capsys, monkeypatch) -> None:
    """Code 130; also where Python dropped the interrupt itself, the next word of the runs ends it."""

    def interrupted(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unskew.reproduce.running.run_exhibit", interrupted)
    assert main(["reproduce", "digits-steps"]) == 130
    assert "interrupted: no run had begun; the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(stopping, "_stopping", True)
    with pytest.raises(KeyboardInterrupt):
        Teller(False)([])

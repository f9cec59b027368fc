"""Exhibits with a function of their own: rows, how they are laid out, pictures of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unskew.cli import main
from unskew.errors import InputError
from unskew.reproduce.daca_runs import draw_figure6, figure2, figure3, figure6
from unskew.reproduce.daca_sharing import draw_figure4, figure4, users
from unskew.reproduce.exhibit import exhibit_of
from unskew.reproduce.making import Wanted, as_markdown, draw_rows, table_of
from unskew.reproduce.running import merge_lines, read_kept, run_quick
from unskew.runs.running import run

ROWS = [
    {"SNR": "10 dB", "method": "DACA", "T_th": at, "emd": emd, "printed": emd + 0.01}
    for at, emd in ((1, 1.694), (2, 1.66), (5, 1.6), (20, 1.4), (50, 1.31))
]


def test_one_variable_is_laid_out_across() -> None:
    """Figure 4's table has a column for some of the thresholds; what was not computed is empty."""
    head, cells = table_of(exhibit_of("daca-figure4"), ROWS[:-1])
    assert head == ["SNR", "method", "T_th 1", "T_th 5", "T_th 20", "T_th 50"]
    assert cells == [["10 dB", "DACA", "1.69 (1.70)", "1.60 (1.61)", "1.40 (1.41)", ""]]


def test_rows_are_a_table_as_they_are() -> None:
    """A column a name; numbers stand right."""
    head, cells = table_of(exhibit_of("daca-gap"), [{"users": 6, "DACA": "0.916 (66%)"}])
    assert as_markdown(head, cells) == "| users | DACA |\n|--:|--:|\n| 6 | 0.916 (66%) |"


def test_new_lines_take_the_place_of_old_ones_of_the_same_run() -> None:
    """A run again, and single seeds instead of a mean; other seeds and other methods stay; rows replace rows."""
    one = {"exhibit": "e", "group": "g"}
    old = [one | {"method": m, "seed": s} for m, s in (("a", 0), ("a", 1), ("b", None), ("c", None))]
    new = [one | {"method": m, "seed": 0, "new": True} for m in ("a", "b")]
    assert merge_lines(old, new) == [old[1], old[3], *new]
    rows = [{"exhibit": "e", "group": "", "method": "", "row": {"x": at}} for at in (1, 2)]
    assert merge_lines([*old, *rows], rows[:1]) == [*old, rows[0]]
    others = [line | {"exhibit": "another"} for line in new]
    assert merge_lines(old, others) == [*old, *others]


def test_figure_4_is_the_pages(tmp_path) -> None:
    """Of one seed: nothing gained at -30 dB, more with more time at 30; drawn of the rows."""
    rows = figure4(Wanted(tmp_path, quick=True))
    emd = {(row["SNR"], row["method"], row["T_th"]): row["emd"] for row in rows}
    assert rows[0]["before"] == pytest.approx(1.714, abs=0.001)
    assert emd["-30 dB", "DACA", 1] == rows[0]["before"]
    assert emd["30 dB", "DACA", 50] < emd["30 dB", "DACA", 1] < 1.714
    assert draw_figure4(rows, tmp_path, tmp_path / "four.png").read_bytes().startswith(b"\x89PNG")
    assert np.array_equal(users(0)[0].sum(0), [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


def test_figures_of_runs_are_read_off_their_folders(tmp_path) -> None:
    """Two runs on the digits: who comes first, what was shared, when a target was reached or that it was not."""
    settings = {
        "dataset": "digits", "partition": "daca", "clients": 30, "cohort": 30, "rounds": 2, "progress": False,
        "network": "wireless(snr=10, round=0.7)", "model": "mlp(hidden=[8])", "min_samples": 1,
    }  # fmt: skip
    for method in ("central_sharing(0.01)", "fedavg"):
        run(method=method, out=tmp_path / method, **settings)
    wanted = Wanted(tmp_path)
    assert [row["partition"] for row in figure2(wanted)] == ["`daca`"] * 2
    assert [row["method"] for row in figure3(wanted)] == ["FedAvg", "central sharing"]
    first, second = figure6(wanted)
    assert (first["volume"], second["volume"]) == (0.0, 1.0)
    assert first["seconds to 95%"] == "over 1"  # two rounds of 0.7 s
    assert second["sharing, s"] > 0
    assert draw_figure6([first | {"seconds to 90%": "29"}], tmp_path, tmp_path / "six.png").exists()


def test_an_exhibit_of_rows_is_shown_drawn_and_refused(tmp_path, capsys, monkeypatch) -> None:
    """What was made before is shown; a table has no picture; nothing can be drawn of nothing."""
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "daca-seconds", "--seeds", "0", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert main(["reproduce", "daca-seconds", "--show"]) == 0
    shown = capsys.readouterr().out
    assert "How long sharing takes" in shown
    assert "17 (17 to 17)" in shown
    assert main(["reproduce", "daca-seconds", "--draw", "none.png"]) == 2
    assert "there is nothing to draw" in capsys.readouterr().err
    with pytest.raises(InputError, match="nothing was found of daca-figure4 yet"):
        draw_rows(exhibit_of("daca-figure4"), [], tmp_path, tmp_path / "none.png")


def test_rows_of_other_rounds_say_so(tmp_path, capsys, monkeypatch) -> None:
    """One round where the exhibit has five: in the line, so that the book refuses it, and under the table."""
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "balanced-digits", "--rounds", "1", "--seeds", "0"]) == 0
    assert "made with rounds = 1, other than the exhibit's" in capsys.readouterr().out
    kept = read_kept(tmp_path / "runs/reproduce/balanced-digits")
    assert all(line["setting"] == {"rounds": 1} for line in kept)


def test_an_exhibits_own_runs_heed_a_stop(tmp_path) -> None:
    """Python may drop an interrupt; a watcher of the runs that rows are made of raises it again."""

    class Stopping:
        def round_ended(self, round: object) -> None:
            raise KeyboardInterrupt

    for name in ("balanced-digits", "flea-scripts", "flea-decor", "digits-steps"):
        with pytest.raises(KeyboardInterrupt):
            run_quick(exhibit_of(name), [Stopping()])

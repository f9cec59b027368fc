"""Warnings on the command line: one line, in words."""

from __future__ import annotations

from unskew.cli import main


def test_a_warning_is_one_line_without_a_place_in_the_code(capsys, tmp_path, monkeypatch):
    """FLea on clients too small to share: counted, told, and the run goes on."""
    monkeypatch.chdir(tmp_path)
    words = "run --dataset digits --partition iid --clients 100 --cohort 2 --rounds 1 --model mlp --method"
    assert main([*words.split(), "flea(dense1, share=0.05)"]) == 0
    told = capsys.readouterr().err.splitlines()
    assert told[0] == (
        "warning: 100 of 100 clients hold fewer than 20 samples and share nothing by flea(share=0.05); nothing is "
        "shared at all: write a larger share"
    )

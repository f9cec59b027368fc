"""What every command does alike: warnings in one line, and letters that a pipe lacks."""

from __future__ import annotations

import io
import sys

import pytest

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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_pipe_that_has_not_every_letter_ends_no_command(encoding, monkeypatch):
    """As a pipe on Windows, or one under an old locale: what it lacks is spelled out."""
    pipes = [io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2)]
    monkeypatch.setattr(sys, "stdout", pipes[0])
    monkeypatch.setattr(sys, "stderr", pipes[1])
    monkeypatch.setattr(sys, "argv", ["unskew", "diagnose", "digits", "--clients", "5"])
    assert main() == 0
    pipes[0].flush()
    assert b"dirichlet" in pipes[0].buffer.getvalue()

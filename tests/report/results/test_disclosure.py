"""What reports and figures tell about privacy."""

from __future__ import annotations

from pathlib import Path

import pytest

import unskew
from unskew.privacy import Context, Reconstruction, attack
from unskew.report import write_report
from unskew.reproduce.flea_figures import main

SETTINGS = {
    "dataset": "digits",
    "partition": "labels(3)",
    "clients": 20,
    "cohort": 4,
    "rounds": 2,
    "progress": False,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """One run that shares features, attacked, and one that shares nothing."""
    folder = tmp_path_factory.mktemp("disclosure")
    shared = {"measure": ("correlation",), "keep": (1,)}
    unskew.run(
        method="flea(dense1, share=0.3)", model="mlp(hidden=[12])", out=folder / "flea", **SETTINGS, **shared
    )
    unskew.run(method="fedavg", model="mlp(hidden=[12])", out=folder / "fedavg", **SETTINGS)
    attack(
        folder / "flea",
        only=("exposure", "correlation", "reconstruction", "context"),
        reconstruction=Reconstruction(epochs=1, samples=64, test=20),
        context=Context(examples=(4, 8), repeats=1, steps=4, test=10),
        progress=False,
    )
    return folder


def test_the_report_tells_what_was_sent_to_whom_and_what_attacks_found(runs, tmp_path):
    """Declared, counted in bytes, exposed, correlated, and attacked, with the picture in the page."""
    page = write_report([runs], tmp_path / "report.html").read_text()
    told = page[page.index('id="disclosure"') : page.index('id="runs"')]
    for words in ("features and labels of some samples", "sent by clients", "exposure", "nothing more"):
        assert words in told
    assert "What attacks got out of it" in told
    assert "features(dense1) after round 1: MSE" in told
    assert "data:image/png;base64," in told


def test_a_report_of_runs_that_were_not_attacked_says_so(runs, tmp_path):
    """And names the command."""
    page = write_report([runs / "fedavg"], tmp_path / "report.html").read_text()
    assert "No run was attacked; `unskew attack RUN`" in page


def test_figure_9_is_drawn_from_attacked_runs(runs, capsys):
    """The fedavg run is attacked too, and has nothing to show but itself."""
    quick = ["--epochs", "1", "--samples", "32", "--examples", "4,8"]
    assert not main(["nine", str(runs), *quick])
    assert (runs / "figure9.png").read_bytes().startswith(b"\x89PNG")
    assert not main(["two", str(runs)])
    assert (runs / "figure2.png").read_bytes().startswith(b"\x89PNG")
    assert main(["nine", str(runs / "flea" / "attack")]) == 2
    assert "holds no run" in capsys.readouterr().err

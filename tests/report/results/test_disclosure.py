"""What reports and figures tell about privacy."""

from __future__ import annotations

from pathlib import Path

import pytest

import unskew
from unskew.errors import InputError
from unskew.privacy import Context, Reconstruction, attack
from unskew.privacy.laboratory import FOLDER
from unskew.report import write_report
from unskew.report.results.disclosure import was_attacked
from unskew.reproduce.flea_figures import draw_figure2, draw_figure9, figure2, figure9
from unskew.reproduce.making import Wanted

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


def test_figures_2_and_9_are_made_and_drawn_of_attacked_runs(runs, tmp_path):
    """The fedavg run is attacked too, and has nothing to show but itself."""
    rows = figure9(Wanted(runs, quick=True))
    assert [row["shared"] for row in rows] == [
        f"`flea(dense1, share=0.3)`, features(dense1), round {at}" for at in (1, 2)
    ]
    assert all(float(row["MSE"]) > 0 and float(row["c"]) > 0 and "%" in row["context found"] for row in rows)
    assert draw_figure9(rows, runs, tmp_path / "nine.png").read_bytes().startswith(b"\x89PNG")
    sizes = figure2(Wanted(runs))
    assert {row["method"] for row in sizes} == {"`fedavg`", "`flea(dense1, share=0.3)`"}
    assert draw_figure2(sizes, runs, tmp_path / "two.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="holds no run"):
        figure9(Wanted(runs / "flea" / "attack"))


def test_an_attack_is_looked_for_where_the_laboratory_writes_it(tmp_path: Path) -> None:
    """Which a report asks without the laboratory."""
    place = tmp_path / FOLDER / "attack.json"
    assert not was_attacked(tmp_path)
    place.parent.mkdir()
    place.write_text("{}")
    assert was_attacked(tmp_path)
    assert not was_attacked(None)

"""The attack's page: a verdict in words first, and numbers that agree with the pictures beside them."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unskew
from unskew.cli import main
from unskew.privacy.context import Context
from unskew.privacy.findings import findings
from unskew.privacy.inversion import Inversion
from unskew.privacy.laboratory import attack
from unskew.privacy.reconstruction import Reconstruction
from unskew.privacy.verdict import verdict
from unskew.report.attack.page import charts, draw
from unskew.report.grids import grids
from unskew.report.results.look import colour_of


def rebuilt(mse: float, epochs: int = 3) -> dict[str, Any]:
    """A reconstruction whose mean sample has the error 0.1."""
    return {
        "part": "flea",
        "view": "features(a)",
        "round": 9,
        "mse": mse,
        "epochs": epochs,
        "blind": {"mse": 0.1},
    }


def inverted(one: float, visit: float, labels: float = 0.1) -> dict[str, Any]:
    """An inversion with these errors, beside 0.1 of the mean sample; labels by chance are 10%."""
    read = {"labels_found": labels, "labels_by_chance": 0.1}
    return {
        "one_step_one_sample": {"mse": one, "clients": 4, **read},
        "whole_visit": {"mse": visit, "samples": 20, "blind": {"mse": 0.1}, **read},
        "blind": {"mse": 0.1},
    }


def record(**sections: Any) -> dict[str, Any]:
    return {"method": "flea(a)", "dataset": "digits", "discloses": ["features (flea)"]} | sections


@pytest.mark.parametrize(
    ("sections", "title"),
    [
        (
            {"reconstruction": {"results": [rebuilt(0.01)]}},
            "Samples come out of flea(a) closely, out of what it shares",
        ),
        (
            {"reconstruction": {"results": [rebuilt(0.09), rebuilt(0.04)]}},
            "Samples come out of flea(a) recognisably, out of what it shares",
        ),
        (
            {"inversion": inverted(0.01, 0.08)},
            "Samples come out of flea(a) in traces, out of a client's update; in the worst case, one step on one "
            "sample, closely",
        ),
        ({"inversion": inverted(0.1, 0.11, labels=0.9)}, "Labels come out of flea(a), samples do not"),
        ({"inversion": inverted(0.1, 0.11)}, "No samples come out of flea(a)"),
        (
            {"discloses": ["raw samples to peers (daca)"]},
            "flea(a) gives raw samples away: there is nothing left to attack",
        ),
        (
            {"exposure": {"shares": True, "epsilon": [0.2]}},
            "flea(a) shows clients' data to others; whether samples come out of it was not tried",
        ),
        (
            {"exposure": {"shares": False, "epsilon": [0.0]}},
            "flea(a) gives no client another's data; what its updates tell was not tried",
        ),
    ],
)
def test_the_worst_that_really_happens_is_the_verdict(sections: dict[str, Any], title: str) -> None:
    """By the share of the mean sample's error that is left: 10% is close, 50% recognisable, 90% a trace."""
    assert verdict(record(**sections)).title == title


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A short run of FLea and quick attacks of every kind on it."""
    path = tmp_path_factory.mktemp("runs") / "flea"
    unskew.run(
        dataset="digits",
        clients=20,
        cohort=4,
        rounds=2,
        method="flea(dense1, share=0.3)",
        out=path,
        progress=False,
    )
    made = attack(
        path,
        reconstruction=Reconstruction(epochs=2, samples=200, test=50),
        context=Context(examples=(10, 20), repeats=1, steps=5, test=50),
        inversion=Inversion(steps=5, images=2, most=12),
        progress=False,
    )
    return path, made.record


def test_the_page_starts_with_the_verdict(attacked: tuple[Path, dict[str, Any]]) -> None:
    """It is the title; the sentences that back it come before any table or picture."""
    path, told = attacked
    page = unescape(draw(path / "attack").read_text())
    said = verdict(told)
    head = page.split("<h1>")[1]
    assert head.startswith(said.title)
    before = head.partition("<table")[0]
    assert all(sentence in before for sentence in said.sentences)


def test_the_terminal_and_json_say_the_verdict_too(
    attacked: tuple[Path, dict[str, Any]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """First of all."""
    monkeypatch.setenv("COLUMNS", "300")
    path, told = attacked
    assert main(["attack", str(path), "--draw"]) == 0
    assert capsys.readouterr().out.startswith(verdict(told).title)
    assert main(["attack", str(path), "--draw", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == str(verdict(told))


def test_the_curve_ends_at_the_number_of_the_table(attacked: tuple[Path, dict[str, Any]]) -> None:
    """The error on unseen samples, in the colour of the method."""
    _, told = attacked
    chart = dict(charts(told))["reconstruction"].to_dict()
    points = next(values for values in chart["datasets"].values() if "label" in values[0])
    (result,) = told["reconstruction"]["results"]
    assert points[-1]["y"] == result["mse"]
    assert f"MSE {points[-1]['y']:.4f}" in dict(findings(told))["reconstruction"]
    assert colour_of(told["method"]) in json.dumps(chart)


def test_every_sample_that_was_judged_is_in_the_picture(attacked: tuple[Path, dict[str, Any]]) -> None:
    """All that was searched, and the PSNR of each: their mean is the number of the table, but for rounding to bytes."""
    path, told = attacked
    caption = {name: text for name, _, text in grids(path, told)}["inversions"]
    one, visit = (
        [float(value) for value in found.split(", ")]
        for found in re.findall(r"(?:right: |; )([\d., ]+) for (?:one step|a visit)", caption)
    )
    inversion = told["inversion"]
    assert len(one) == inversion["one_step_one_sample"]["clients"]
    assert len(visit) == inversion["whole_visit"]["searched"]
    assert np.mean(one) == pytest.approx(inversion["one_step_one_sample"]["psnr"], abs=0.1)
    assert np.mean(visit) == pytest.approx(inversion["whole_visit"]["psnr"], abs=0.1)


def test_plus_minus_is_never_a_deviation_here(attacked: tuple[Path, dict[str, Any]]) -> None:
    """Inside a report ± is what the report says it is; what attacks found says sd."""
    _, told = attacked
    assert "sd 0." in dict(findings(told))["correlation"]
    assert "±" not in json.dumps(list(findings(told)), ensure_ascii=False)

"""``unskew methods`` as a user reads it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unskew.cli import app, main
from unskew.cli.methods import shorten
from unskew.expression import summary
from unskew.parts import PARTS


def test_every_part_is_listed_with_what_it_does():
    """On 80 columns too, however many parameters a part has: its name, and its summary's first two words."""
    printed = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "80"}).output
    flat = " ".join(printed.split())
    for name, part in PARTS.items():
        assert f" {name}" in flat
        assert " ".join(summary(part).split()[:2]) in flat


def test_long_signatures_are_cut_after_a_parameter():
    """The first ones stay; a single long one goes."""
    assert shorten("fedntd(beta=1.0, tau=1.0)") == "fedntd(beta=1.0, tau=1.0)"
    long = "fedbr(mu=0.5, lam=1.0, gamma=1.0, tau1=2.0, tau2=2.0, pseudo=32)"
    assert shorten(long) == "fedbr(mu=0.5, lam=1.0, gamma=1.0, …)"
    assert shorten(long, 30) == "fedbr(mu=0.5, lam=1.0, …)"
    assert shorten("name(parameter=a_default_that_is_too_long_for_one_line)") == "name(…)"


def test_parameters_are_shown_as_a_user_writes_them(capsys):
    """Words and values of an expression, none of Python's typing."""
    show = {name: (main(["methods", name]), capsys.readouterr().out)[1] for name in PARTS}
    assert "  willing: a number or all; default 0.5\n" in show["kld"]
    assert "  v_th: a number or none; default none\n" in show["daca"]
    assert "  absent: client or batch; default client\n" in show["fedrs"]
    assert "  printed: true or false; default false\n" in show["fedlc"]
    assert not [name for name, text in show.items() if "Literal" in text or "None" in text or "Store" in text]


def test_a_part_of_ones_own_is_shown_like_any_other(tmp_path, monkeypatch):
    """By package.module:Class, with values or without: what to write, its text, parameters and what it discloses."""
    (tmp_path / "mine_shown.py").write_text(
        "from dataclasses import dataclass\n"
        "from typing import ClassVar\n"
        "from unskew.core.slots import Objective\n"
        "@dataclass(frozen=True)\n"
        "class Mine(Objective):\n"
        "    '''Does what I want.'''\n"
        "    name: ClassVar[str] = 'mine'\n"
        "    paper: ClassVar[str] = 'a paper'\n"
        "    discloses: ClassVar[tuple[str, ...]] = ('its age',)\n"
        "    mu: float = 0.5\n"
        "class Loose(Mine): pass\n"
        "class Bare: pass\n"
    )
    monkeypatch.chdir(tmp_path)
    for written in ("mine_shown:Mine", "mine_shown:Mine(mu=2)"):
        shown = CliRunner().invoke(app, ["methods", written]).output
        assert "mine_shown:Mine(mu=0.5)  objective\nDoes what I want.\n" in shown
        assert "mu: a number; default 0.5" in shown
        assert "paper      a paper\ndiscloses  its age" in shown
    told = json.loads(CliRunner().invoke(app, ["methods", "mine_shown:Mine", "--json"]).output)
    assert told["write"] == "mine_shown:Mine(mu=0.5)"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere_at_all:Mine", "cannot import 'nowhere_at_all' for the part nowhere_at_all:Mine"),
        ("json:Mine", "there is no 'Mine' in 'json'"),
        ("json:JSONDecoder", "'json:JSONDecoder' is not a part: derive it from a slot class of unskew.parts"),
        ("semm", "there is no method or part 'semm'; did you mean 'sem'"),
    ],
)
def test_what_is_no_part_is_told_in_a_sentence(name, said, capsys):
    """With what to write instead, and exit code 2."""
    assert main(["methods", name]) == 2
    assert said in capsys.readouterr().err

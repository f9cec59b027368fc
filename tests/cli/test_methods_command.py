"""``unskew methods`` as a user reads it."""

from __future__ import annotations

from typer.testing import CliRunner

from unskew.cli import app
from unskew.cli.methods import _short
from unskew.expression import summary
from unskew.method import PARTS


def test_every_part_is_listed_with_what_it_does():
    """On 80 columns too, however many parameters a part has: its name, and its summary's first two words."""
    printed = CliRunner().invoke(app, ["methods"], env={"COLUMNS": "80"}).output
    flat = " ".join(printed.split())
    for name, part in PARTS.items():
        assert f" {name}" in flat
        assert " ".join(summary(part).split()[:2]) in flat


def test_long_signatures_are_cut_after_a_parameter():
    """The first ones stay; a single long one goes."""
    assert _short("fedntd(beta=1.0, tau=1.0)") == "fedntd(beta=1.0, tau=1.0)"
    long = "fedbr(mu=0.5, lam=1.0, gamma=1.0, tau1=2.0, tau2=2.0, pseudo=32)"
    assert _short(long) == "fedbr(mu=0.5, lam=1.0, gamma=1.0, …)"
    assert _short(long, 30) == "fedbr(mu=0.5, lam=1.0, …)"
    assert _short("name(parameter=a_default_that_is_too_long_for_one_line)") == "name(…)"


def test_parameters_are_shown_as_a_user_writes_them():
    """Words and values of an expression, none of Python's typing."""
    show = {name: CliRunner().invoke(app, ["methods", name]).output for name in PARTS}
    assert "  willing: a number or all; default 0.5\n" in show["kld"]
    assert "  v_th: a number or none; default none\n" in show["daca"]
    assert "  absent: client or batch; default client\n" in show["fedrs"]
    assert "  printed: true or false; default false\n" in show["fedlc"]
    assert not [name for name, text in show.items() if "Literal" in text or "None" in text or "Store" in text]

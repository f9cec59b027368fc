"""``unskew federation`` and ``unskew site`` where no server is needed; tests/sites has the real ones."""

import json
import os

import pytest

pytest.importorskip("cryptography")

from unskew.cli import main
from unskew.sites.policy import Policy
from unskew.sites.status import limits_told


def test_a_federation_is_made_grown_and_renewed(tmp_path, monkeypatch, capsys):
    """Each command says what to do next."""
    monkeypatch.chdir(tmp_path)
    assert main(["federation", "init", "ops", "--sites", "north,south", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["address"] == "localhost:8443"
    assert told["hand_out"] == {"north": "ops/hand-out/north", "south": "ops/hand-out/south"}
    assert main(["federation", "init", "ops", "--sites", "north"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["federation", "add", "ops", "west"]) == 0
    assert "hand to west: ops/hand-out/west" in capsys.readouterr().out
    assert main(["federation", "renew", "ops", "--port", "9443"]) == 0
    assert "site.toml are now localhost and 9443" in capsys.readouterr().out
    assert main(["federation", "status", "ops", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["running"] is False
    assert [site["site"] for site in told["sites"]] == ["north", "south", "west"]
    assert main(["federation", "stop", "ops"]) == 0
    assert "did not run" in capsys.readouterr().out
    assert main(["diagnose", "--sites", "ops"]) == 2
    assert "does not run; start it with" in capsys.readouterr().err


@pytest.mark.parametrize("names", ["../north", "a/b", "north,-x", "north;id", "north,north", ","])
def test_names_cannot_lead_elsewhere(tmp_path, monkeypatch, capsys, names):
    """Refused before anything is written."""
    monkeypatch.chdir(tmp_path)
    assert main(["federation", "init", "ops", f"--sites={names}"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--allow", "everything"], "cannot allow 'everything'"),
        (["--data", "none.csv"], "there is no file or folder none.csv"),
        (["--label", "sex"], "has no column 'sex'; it has age, diagnosis"),
        (["--max-rounds", "0"], "whole number from 1"),
        (["--folder", "ops"], "is no site's folder"),
    ],
)
def test_a_site_that_is_started_wrongly_says_so(tmp_path, monkeypatch, capsys, words, said):
    """Before it connects to anybody."""
    pytest.importorskip("flwr")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits.csv").write_text("age,diagnosis\n30,x\n31,y\n")
    assert main(["federation", "init", "ops", "--sites", "north"]) == 0
    usual = ["--data", "visits.csv", "--label", "diagnosis"]
    assert main(["site", "start", "north", *usual, *words]) == 2
    assert said in capsys.readouterr().err
    assert main(["site", "start", "../north", *usual]) == 2
    assert "cannot be the name of a site" in capsys.readouterr().err


def test_a_table_says_what_a_policylimits_told():
    """Only where it says more than the usual."""
    assert limits_told(Policy().as_dict()) == ""
    policy = Policy(min_samples=50, max_rounds=9, models=frozenset({"mlp"}))
    assert limits_told(policy.as_dict()) == "; at most 9 rounds; from 50 samples; models mlp"

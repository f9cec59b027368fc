"""A setting has one name, in Python, in TOML and on every command; the old ones work and say the new."""

from __future__ import annotations

import inspect
import json
import warnings

import numpy as np
import pytest
import typer

import unskew
from unskew.cli import app, main
from unskew.data.files import data_folder
from unskew.privacy import Context, attack, subject
from unskew.renamed import Renamed
from unskew.report.diagnosis import diagnose
from unskew.runs.experiment_file import read_toml
from unskew.runs.old_flags import FLAGS
from unskew.runs.spec import HINTS

QUICK = {"clients": 4, "cohort": 2, "rounds": 1, "partition": "iid", "model": "linear", "progress": False}
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_is_spelt_as_its_setting(command):
    """One that is a setting of runs has that setting's name, on every command, and no flag has an old name."""
    for option in COMMANDS[command].params:
        assert not set(option.opts) & set(FLAGS)
        if option.name in HINTS and option.opts[0].startswith("--"):
            assert "--" + option.name.replace("_", "-") in option.opts


def test_where_files_go_is_called_out_everywhere():
    """Commands that write take --out and -o."""
    for name in ("run", "sweep", "demo", "diagnose", "partition", "report"):
        flags = [p.opts for p in COMMANDS[name].params if "-o" in p.opts]
        assert flags == [["--out", "-o"]], name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["datasets", "--data", "here"], ["datasets", "--data-folder", "here"]),
        (["datasets", "--data=here"], ["datasets", "--data-folder=here"]),
        (
            ["partition", "digits", "iid", "--clients", "5", "--output", "p.npz"],
            ["partition", "digits", "iid", "--clients", "5", "--out", "p.npz"],
        ),
        (["run", "--data", "here", "--dry-run"], ["run", "--data-folder", "here", "--dry-run"]),
    ],
)
def test_an_old_flag_works_and_says_the_new_one(old, new, capsys):
    """The same answer, and on the side one line of what to write."""
    assert main(new) == 0
    told = capsys.readouterr()
    assert main(old) == 0
    again = capsys.readouterr()
    assert again.out == told.out
    flag = next(word.partition("=")[0] for word in old if word.partition("=")[0] in FLAGS)
    assert again.err == f"warning: {flag} is now called {FLAGS[flag]}; write {FLAGS[flag]}\n" + told.err


def test_a_saved_partition_is_named_as_in_a_run(capsys):
    """--partition FILE.npz diagnoses it, `unskew partition DATASET FILE.npz` shows it, --load is the old name."""
    assert main(["partition", "digits", "q(0.7)", "--clients", "10", "-o", "p.npz", "--json"]) == 0
    saved = json.loads(capsys.readouterr().out)
    for words in (
        ["diagnose", "digits", "--partition", "p.npz"],
        ["diagnose", "digits", "--load", "p.npz"],
        ["partition", "digits", "p.npz"],
    ):
        assert main([*words, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["partition"]["sha256"] == saved["partition"]["sha256"]


@pytest.mark.parametrize("value", ["mnist", "uci_har(channels=all)", "mine.csv", "mine.NPZ"])
def test_a_data_set_is_not_taken_for_a_folder(value, capsys):
    """Who means one by --data would train on another."""
    assert main(["run", "--data", value, "--rounds", "1"]) == 2
    assert f"write --dataset {value} (run, sweep)" in capsys.readouterr().err


def test_words_after_a_double_dash_are_nobodys_flags(capsys):
    """They are arguments, also where they look like an old flag."""
    assert main(["datasets", "--", "--data"]) == 2
    assert "there is no data set '--data'" in capsys.readouterr().err


def called_by_an_old_name(call, old, new):
    """What a call returns that uses an old name; it must warn, and of this file."""
    with pytest.warns(Renamed, match=rf"^{old} is now called {new}; write {new}$") as said:
        result = call()
    assert [w.filename for w in said if w.category is Renamed] == [__file__]
    return result


def test_old_keywords_work_and_say_the_new_one(tmp_path):
    """In Python that is a DeprecationWarning at the line that uses it."""
    digits = unskew.load("digits", data_folder=tmp_path)
    found = called_by_an_old_name(lambda: unskew.load("digits", root=tmp_path), "root=", "data_folder=")
    assert found.x.shape == digits.x.shape
    held = called_by_an_old_name(
        lambda: unskew.partition(data=digits, expression="iid", clients=4), "data=", "dataset="
    )
    assert held.record["sha256"] == unskew.partition(digits, "iid", clients=4).record["sha256"]
    ended = called_by_an_old_name(
        lambda: unskew.run(data=(digits.x, digits.y), out="run", **QUICK), "data=", "dataset="
    )
    again = called_by_an_old_name(
        lambda: unskew.resume("run", data=(digits.x, digits.y), progress=False), "data=", "dataset="
    )
    assert again.result["final"] == ended.result["final"]
    called_by_an_old_name(lambda: subject("run", data=(digits.x, digits.y)), "data=", "dataset=")
    told = called_by_an_old_name(lambda: diagnose(np.eye(3), data="mine"), "data=", "dataset=")
    assert told.as_dict()["dataset"] == told.dataset == "mine"
    assert called_by_an_old_name(lambda: Context(sizes=(2, 4)), "sizes=", "examples=").examples == (2, 4)


def test_both_names_at_once_are_refused():
    """Neither is silently left out."""
    with pytest.raises(unskew.InputError, match="keep dataset"):
        unskew.run(data="digits", dataset="digits", **QUICK)


def test_new_names_do_not_warn():
    """Nor does anything that we call ourselves."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", Renamed)
        unskew.run(dataset="digits", **QUICK)
        unskew.run(unskew.Spec(dataset="digits"), **QUICK)


@pytest.mark.parametrize(
    "function", [unskew.run, unskew.resume, unskew.partition, unskew.load, attack, subject]
)
def test_no_signature_has_an_old_name(function):
    """Help and completion show the new ones only."""
    assert not {"data", "root", "views"} & set(inspect.signature(function).parameters)


def test_the_old_variable_works_and_says_the_new_one(tmp_path, monkeypatch, capsys):
    """UNSKEW_DATA, where UNSKEW_DATA_FOLDER is not set; on the command line that is said once."""
    monkeypatch.delenv("UNSKEW_DATA_FOLDER", raising=False)
    monkeypatch.setenv("UNSKEW_DATA", str(tmp_path / "old"))
    with pytest.warns(Renamed, match="the variable UNSKEW_DATA is now called UNSKEW_DATA_FOLDER"):
        assert data_folder() == tmp_path / "old"
    assert main(["datasets"]) == 0
    told = capsys.readouterr()
    assert f"data folder: {tmp_path / 'old'}" in told.out
    assert told.err.count("UNSKEW_DATA_FOLDER; write UNSKEW_DATA_FOLDER") == 1
    monkeypatch.setenv("UNSKEW_DATA_FOLDER", str(tmp_path / "new"))
    assert data_folder() == tmp_path / "new"


def test_an_experiment_that_says_data_is_told_the_two_names(tmp_path):
    """A guess could take a folder for a data set."""
    file = tmp_path / "e.toml"
    file.write_text('rounds = 2\ndata = "digits"\n')
    with pytest.raises(
        unskew.InputError, match=r"line 2: .*write dataset for what to train on, data_folder for"
    ):
        read_toml(file)
    file.write_text('dataset = "digits"\ndata_folder = "here"\n')
    assert read_toml(file)[0] == {"dataset": "digits", "data_folder": "here"}

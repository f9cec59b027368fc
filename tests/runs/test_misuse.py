"""Settings that contradict each other, and things handed over that are not what was asked for."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import unskew
from unskew.cli import main
from unskew.core.method import Method
from unskew.core.slots import Objective
from unskew.errors import InputError
from unskew.report import write_report
from unskew.runs.spec import Spec


@pytest.fixture
def saved(tmp_path, monkeypatch):
    """A partition of the digits over eight clients."""
    monkeypatch.chdir(tmp_path)
    assert main(["partition", "digits", "dirichlet(0.1)", "--clients", "8", "--out", "split.npz"]) == 0
    return "split.npz"


@pytest.mark.parametrize(
    "late",
    [
        "--clients 7",
        "--fraction 0.1",
        "--samples-per-client 5",
        "--min-samples 2",
        "--emd 1.2",
        "--partition-seed 3",
    ],
)
def test_a_saved_partition_is_not_dealt_out_again(saved, late, capsys, tmp_path):
    """What would change it is refused instead of being swallowed; so it is in a diagnosis."""
    flag, value = late.split()
    assert (
        main(["run", "--partition", saved, flag, value, "--rounds", "1", "--cohort", "2", "--out", "run"])
        == 2
    )
    said = capsys.readouterr().err
    assert f"is a saved partition of 8 clients, so {flag[2:].replace('-', '_')} = " in said
    assert not (tmp_path / "run").exists()
    if flag != "--partition-seed":
        assert main(["diagnose", "digits", "--partition", saved, flag, value]) == 2
        assert f"is a saved partition, so {flag} comes too late" in capsys.readouterr().err


def test_a_saved_partition_may_be_told_how_many_clients_it_has(saved):
    """The same number contradicts nothing."""
    assert (
        main(
            ["run", "--partition", saved, "--clients", "8", "--rounds", "1", "--cohort", "2", "--out", "run"]
        )
        == 0
    )


def test_a_client_column_is_not_dealt_over(tmp_path, capsys):
    """Naming who holds what and then dealing samples out by default would train on clients that do not exist."""
    table = tmp_path / "visits.csv"
    table.write_text("label,age,hosp\n" + "".join(f"{i % 2},{i % 7},h{i % 3}\n" for i in range(60)))
    words = [
        "run",
        "--dataset",
        str(table),
        "--label",
        "label",
        "--client",
        "hosp",
        "--rounds",
        "1",
        "--cohort",
        "2",
    ]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "spec.json").read_text())["spec"]["partition"] == "by(hosp)"
    assert main([*words, "--partition", "by(hosp)", "--out", str(tmp_path / "same")]) == 0
    assert main([*words, "--partition", "iid", "--clients", "4", "--out", str(tmp_path / "other")]) == 0


@pytest.mark.parametrize("thing", [5, "sem", int, nn.Linear])
def test_only_parts_are_checked_and_joined(thing):
    """A sentence, not an attribute that is missing."""
    with pytest.raises(InputError, match="check_part takes a part"):
        unskew.check_part(thing)
    with pytest.raises(InputError, match="a method is made of parts"):
        Method.of(thing)


def test_numbers_of_numpy_are_numbers():
    """A grid made by numpy gives them."""
    spec = Spec(lr=np.float64(0.1), rounds=np.int64(3), nesterov=np.bool_(False))
    assert (spec.lr, spec.rounds, spec.nesterov) == (0.1, 3, False)
    assert {type(spec.lr), type(spec.rounds), type(spec.nesterov)} == {float, int, bool}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lr": 1e308}, "lr must be at most 1e+30, not 1e+308"),
        ({"momentum": 1.0}, "momentum must be below 1, not 1.0"),
    ],
)
def test_numbers_that_no_run_survives(settings, said):
    with pytest.raises(InputError) as refusal:
        Spec(**settings)
    assert str(refusal.value).startswith(said)


def test_a_frozen_model_is_refused():
    """There is nothing to train."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10)).requires_grad_(False)
    with pytest.raises(InputError, match="the model has no weights to train"):
        unskew.run(clients=5, cohort=2, rounds=1, model=model, progress=False)


def test_a_layer_that_is_there_twice():
    """It trains as one that is called twice does; what is defined in a function stays in one process."""
    torch.manual_seed(0)
    dense, last = nn.Linear(64, 64), nn.Linear(64, 10)

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense, self.last = dense, last

        def forward(self, x):
            return self.last(self.dense(torch.relu(self.dense(x.flatten(1)))))

    chain = nn.Sequential(nn.Flatten(), dense, nn.ReLU(), dense, last)
    settings = {"clients": 5, "cohort": 2, "rounds": 2, "progress": False}
    for engine in ("loop", "fast"):
        one = unskew.run(model=chain, engine=engine, workers=2, **settings).state.params
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            other = unskew.run(model=Twice(), engine=engine, workers=2, **settings).state.params
        for a, b in zip(one.values(), other.values(), strict=True):
            assert torch.equal(a, b)
        told = [str(w.message) for w in said if "one process trains instead of 2" in str(w.message)]
        assert len(told) == (engine == "fast")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("run --dry-run --method nosuch", "there is no method or part 'nosuch'"),
        ("run --dry-run --device nosuch", "there is no device 'nosuch'"),
        ("run --dry-run --decay nosuch", "there is no learning-rate decay 'nosuch'"),
        ("run --compile --engine loop --clients 5 --cohort 2", "compile belongs to the fast engine on a GPU"),
        ("attack run --rounds 0", "name one of round 2"),
        ("attack run --rounds 9", "name one of round 2"),
        ("attack run --rounds 1", "run it with keep = [1]"),
        ("attack run --device nosuch", "there is no device 'nosuch'"),
        (f"report run --out {'a' * 300}.html", "the name is too long for a file; choose a shorter one"),
        ("partition digits iid --clients 3 --scarce -1", "Invalid value for '--scarce'"),
    ],
)
def test_more_sentences(words, said, tmp_path, monkeypatch, capsys):
    """Code 2, and advice that can be followed."""
    monkeypatch.chdir(tmp_path)
    unskew.run(clients=5, cohort=2, rounds=2, model="linear", out="run", progress=False)
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err


def test_an_experiment_file_may_begin_with_a_mark(tmp_path, capsys):
    """Some editors put one before the first line."""
    (tmp_path / "marked.toml").write_text("\ufeffrounds = 3\n", "utf-8")
    assert main(["run", str(tmp_path / "marked.toml"), "--dry-run"]) == 0
    assert "rounds = 3" in capsys.readouterr().out


def test_a_run_whose_answers_were_mostly_refused_says_so(tmp_path, capsys):
    """The table counts them; the warning says what they mean."""
    words = ["run", "--clients", "6", "--cohort", "3", "--rounds", "3", "--lr", "1e17", "--engine", "loop"]
    assert main([*words, "--out", str(tmp_path / "run")]) == 0
    assert "most answers were not finite and were refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"spec": {"rounds": 1}}, "run takes a Spec, or settings by name"),
        ({"spec": "digits"}, "run takes a Spec, or settings by name"),
        ({"out": 5}, "out is a folder's path, not 5"),
        ({"out": ""}, "out is a folder's path, not ''"),
        ({"out": "a\0b"}, "out is a folder's path, not "),
        ({"method": ""}, "method is empty; write a name, or leave it out"),
        ({"partition": " "}, "partition is empty; write a name, or leave it out"),
        ({"target": 0.9}, r"target must be a list, each item a number; write \[0.9\]"),
        ({"progress": "x"}, "progress is True, False or an object with advance"),
        (
            {"data": "digits", "dataset": "mnist"},
            "data and dataset are the same, data by its old name; keep dataset",
        ),
    ],
)
def test_runs_asked_for_in_another_way(given, said):
    """A sentence about what was meant, not an attribute of what was given."""
    settings = {"clients": 5, "cohort": 2, "rounds": 1, "model": "linear", "progress": False}
    with pytest.raises(InputError, match=said):
        unskew.run(given.pop("spec", None), **settings | given)
    with pytest.raises(InputError, match="the run to resume is a folder's path, not 5"):
        unskew.resume(5)
    with pytest.raises(InputError, match="the run to load is a folder's path, not 5"):
        unskew.load_run(5)
    with pytest.raises(InputError, match="a report is of runs, or of folders that hold them, not of 5"):
        write_report([5], "report.html")
    with pytest.raises(InputError, match=r'a partition is written like "dirichlet\(0.1\)", not 5'):
        unskew.partition([0, 1], 5, 2)


def test_what_is_asked_of_a_run_in_another_way(tmp_path, monkeypatch):
    """No samples, a round by its name, a file that is none."""
    monkeypatch.chdir(tmp_path)
    ended = unskew.run(clients=5, cohort=2, rounds=1, model="linear", progress=False, out="run")
    for samples in (np.zeros((0, 1, 8, 8)), np.zeros((0, 8, 8)), []):
        with pytest.raises(InputError, match="x has no samples; give at least one"):
            ended.predict(samples)
    with pytest.raises(InputError, match="round is a whole number, not 'last'"):
        ended.model_of("last")
    with pytest.raises(InputError, match="what a model is written to is a file's path, not None"):
        ended.save(None)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning", "ignore:The .grad attribute")
def test_models_and_tensors_without_what_is_needed():
    """A scripted module hides its layers, and a tensor on the device meta has no numbers."""
    x, y = torch.zeros(20, 5), [0, 1] * 10
    with pytest.raises(InputError, match=r"is scripted \(torch.jit\), so its layers cannot be reached"):
        unskew.run(
            dataset=(x, y), model=torch.jit.script(nn.Linear(5, 2)), clients=2, rounds=1, progress=False
        )
    with pytest.raises(InputError, match="x is a tensor on the device 'meta', which holds no numbers"):
        unskew.run(dataset=(x.to("meta"), y), clients=2, rounds=1, progress=False)


def test_no_progress_is_silence(capsys):
    unskew.run(clients=5, cohort=2, rounds=1, model="linear", progress=None)
    assert capsys.readouterr() == ("", "")


def test_a_diverged_gamma_is_shown(tmp_path, capsys):
    """It is null in the result and a word in the table."""
    words = ["run", "--clients", "6", "--cohort", "3", "--rounds", "2", "--lr", "1e17", "--engine", "loop"]
    assert main([*words, "--measure", "gamma", "--out", str(tmp_path / "run")]) == 0
    assert "not finite (thesis eq. 3.1" in capsys.readouterr().out


def test_parts_that_no_resume_could_find_have_no_folder(tmp_path):
    """A class inside a function has no name that another process could import; in memory it is welcome."""

    @dataclass(frozen=True)
    class Local(Objective):
        """Does nothing."""

        name: ClassVar[str] = "nothing"

    settings = {
        "clients": 5,
        "cohort": 2,
        "rounds": 1,
        "model": "linear",
        "engine": "loop",
        "progress": False,
    }
    with pytest.raises(InputError, match="could not be resumed"):
        unskew.run(method=Method.of(Local()), out=tmp_path / "run", **settings)
    assert not (tmp_path / "run").exists()
    assert unskew.run(method=Method.of(Local()), **settings).result["status"] == "done"

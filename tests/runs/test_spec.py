"""Settings: the same in Python, in TOML and as flags, and what is refused with its line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.cli.settings import setting_flags
from unskew.errors import InputError
from unskew.runs.experiment_file import read_toml
from unskew.runs.spec import Spec


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"epochs": 1, "steps": 2}, "epochs and steps both set the local budget; keep one"),
        ({"rounds": 0}, "rounds must be at least 1, not 0"),
        ({"rounds": 2.5}, "rounds must be a whole number, not 2.5"),
        ({"rounds": True}, "rounds must be a whole number, not true"),
        ({"rounds": "ten"}, "rounds must be a whole number, not ten"),
        ({"lr": 0}, "lr must be above 0, not 0.0"),
        ({"lr": float("inf")}, "lr must be a finite number, not inf"),
        ({"momentum": float("nan")}, "momentum must be a finite number, not nan"),
        ({"weight_decay": -1}, "weight_decay must be at least 0, not -1.0"),
        ({"nesterov": True}, "nesterov needs momentum above 0, for example momentum = 0.9"),
        ({"optimizer": "adam", "momentum": 0.9}, "momentum belongs to sgd; adam has its own"),
        ({"optimizer": "lion"}, "optimizer must be sgd or adam, not lion"),
        ({"cohort": 0}, "cohort must be a number of clients or a share below 1, not 0"),
        ({"cohort": 2.5}, "cohort must be a number of clients or a share below 1, not 2.5"),
        ({"fraction": 1.5}, "fraction is a share of the data above 0 and of at most 1, not 1.5"),
        ({"target": "0.5"}, "target must be a list, each item a number, not 0.5"),
        ({"lrr": 0.1}, "there is no setting 'lrr'; did you mean 'lr'?"),
    ],
)
def test_bad_settings_are_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        Spec.of(settings)
    assert str(problem.value).startswith(sentence.replace("not 0.5", "not"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('method = "fedavg"\nroundz = 3\n', "line 2: there is no setting 'roundz'; did you mean 'rounds'?"),
        ('rounds = "many"\n', "line 1: rounds must be a whole number, not many"),
        ("\n\nepochs = 1\nsteps = 5\n", "line 3: epochs and steps both set the local budget; keep one"),
        ("seed = 1\n\n[sweep]\nseed = [1, 2]\n", "line 1: seed is both set and swept; keep one"),
        ("[sweep]\nlr = 0.1\n", 'line 2: a swept setting needs a list of values, or a range like "0-4"'),
        ('[sweep]\nlr = [0.1, "a"]\n', "line 2: lr must be a number, not a"),
        ('[sweep]\nseed = "4-1"\n', "line 2: the range '4-1' runs backwards; write 1-4"),
        ("sweep = 3\n", "line 1: sweep must be a table: write [sweep] on its own line"),
        ("[data]\nrounds = 3\n", "line 1: there is no setting 'data'"),
    ],
)
def test_a_bad_file_is_refused_with_the_line(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    with pytest.raises(InputError) as problem:
        read_toml(path)
    assert str(problem.value).startswith(f"{path}, {sentence}")


def test_a_file_that_is_not_there_or_not_toml_is_refused(tmp_path: Path) -> None:
    missing, broken = tmp_path / "missing.toml", tmp_path / "broken.toml"
    other = tmp_path / "other.toml"
    other.write_text("rounds = 3", encoding="utf-16")
    with pytest.raises(InputError, match=r"other\.toml is not written in UTF-8; save it in UTF-8"):
        read_toml(other)
    with pytest.raises(InputError, match=f"there is no experiment file {missing}"):
        read_toml(missing)
    broken.write_text("rounds = = 3\n")
    with pytest.raises(InputError, match=r"broken.toml is not valid TOML: .*line 1"):
        read_toml(broken)


def test_what_toml_writes_it_reads() -> None:
    """A spec's TOML holds what differs from the defaults, and makes the same spec."""
    spec = Spec(
        rounds=7, target=(0.5, 0.9), method="fedavg(uniform=true)", nesterov=True, momentum=0.9, cohort=0.2
    )
    import tomllib

    again = tomllib.loads(spec.toml())
    assert set(again) == {"rounds", "target", "method", "nesterov", "momentum", "cohort"}
    assert Spec.of(again) == spec


CHANGED = Spec(
    dataset="mnist",
    data_folder="/data",
    clients=5,
    method="fedavg(uniform=true)+full",
    model="mlp(hidden=[20, 10])",
    cohort=0.5,
    steps=3,
    lr=1e-05,
    momentum=0.9,
    nesterov=True,
    clip=1.0,
    last="wrap",
    evaluate_clients=True,
    target=(0.5, 0.75),
    measure=("divergence", "gamma"),
    seed=3,
    checkpoint=0.0,
)


def test_the_flags_of_a_spec_make_that_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep hands its cells over as flags, so these must lose nothing."""
    import json

    monkeypatch.setattr("unskew.runs.rehearsal.rehearse", lambda spec: spec)  # its data is nowhere
    shown = CliRunner().invoke(app, ["run", "--dry-run", "--json", *setting_flags(CHANGED.changed())])
    assert shown.exit_code == 0, shown.output
    assert Spec.of(json.loads(shown.stdout)) == CHANGED


def test_files_are_named_by_their_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on ../own.csv is resumed from any folder; names of data sets and families stay as they are."""
    (tmp_path / "own.csv").write_text("a,label\n1,0\n")
    monkeypatch.chdir(tmp_path)
    spec = Spec(dataset="own.csv(label=label)", partition="dirichlet(0.1)")
    assert spec.dataset == f"{tmp_path.resolve()}/own.csv(label=label)"
    assert spec.partition == "dirichlet(0.1)"
    assert Spec(dataset="digits").dataset == "digits"
    assert Spec(dataset="absent.csv").dataset == "absent.csv"


def test_folders_and_names_with_brackets_are_whole_paths_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare folder name is found only from the folder it lies in; what is a data set's or family's name is none."""
    for name in ("shades", "digits", "iid", "photos (copy)"):
        (tmp_path / name).mkdir()
    (tmp_path / "data(1).csv").write_text("a,label\n1,0\n")
    (tmp_path / "datalink").symlink_to(tmp_path / "shades")
    monkeypatch.chdir(tmp_path)
    here = str(tmp_path.resolve())
    for text in (
        "shades",
        "shades(size=4)",
        "data(1).csv",
        "data(1).csv(label=label)",
        "photos (copy)(size=4)",
    ):
        assert Spec(dataset=text).dataset == f"{here}/{text}"
    assert Spec(data_folder="datalink").data_folder == f"{here}/shades"
    spec = Spec(dataset="digits(test=0.5)", partition="iid")
    assert (spec.dataset, spec.partition) == ("digits(test=0.5)", "iid")
    long = f"mixed({', '.join(['labels(1)'] * 900)})"
    assert Spec(partition=long).partition == long


@pytest.mark.parametrize("text", [" by(hosp)", "by (hosp)", "by(hosp) "])
def test_spaces_around_a_name_change_nothing(text: str) -> None:
    """A run looks at how the partition begins to see whether it brings its own number of clients."""
    assert Spec(partition=text).partition == "by(hosp)"


def test_data_in_place_of_an_experiment_file_is_told_where_it_belongs(tmp_path):
    """`diagnose` takes data in that place, so people try."""
    table = tmp_path / "visits.csv"
    table.write_text("a,label\n1,x\n")
    with pytest.raises(InputError) as problem:
        read_toml(table)
    assert str(problem.value) == (
        f"{table} holds data, and an experiment file ends in .toml; write --dataset {table}"
    )

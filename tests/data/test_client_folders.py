"""Own data that lies client by client: a folder of images or a table for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

import unskew
from unskew.cli import main
from unskew.data import load
from unskew.errors import InputError
from unskew.runs.spec import Spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pictures(shades: dict[str, int], each: int = 5) -> None:
    for folder, shade in shades.items():
        Path(folder).mkdir(parents=True)
        for n in range(each):
            Image.new("L", (4, 4), shade + n).save(Path(folder, f"{n}.png"))


USERS = {
    "users/ann/cat": 0,
    "users/ann/dog": 50,
    "users/bob/dog": 100,
    "users/cy/cat": 150,
    "users/cy/dog": 200,
}


def test_folders_of_clients_hold_folders_of_classes() -> None:
    """Five images a folder, of which one in five of each class (2 of 10 cats, 3 of 15 dogs) is held out."""
    pictures(USERS)
    found = load("users(folders=client/class)")
    assert (found.labels, len(found), len(found.y_test)) == (("cat", "dog"), 20, 5)
    whose = {0: "ann", 1: "ann", 2: "bob", 3: "cy", 4: "cy"}
    kind = {0: "cat", 1: "dog", 2: "dog", 3: "cat", 4: "dog"}
    for x, y, owners in (
        (found.x, found.y, found.columns["client"]),
        (found.x_test, found.y_test, found.columns_test["client"]),
    ):
        shades = (x[:, 0, 0, 0] // 50).tolist()
        assert [whose[k] for k in shades] == owners.tolist()
        assert [kind[k] for k in shades] == [found.labels[k] for k in y]


def test_or_classes_hold_folders_of_clients_below_train_and_test() -> None:
    pictures(
        {f"set/{side}/{k}/{who}": 9 for side in ("train", "test") for k in "ab" for who in ("x", "y")}, 2
    )
    found = load("./set", folders="class/client")
    assert (found.labels, len(found), len(found.y_test)) == (("a", "b"), 8, 8)
    assert found.columns["client"].tolist() == ["x", "x", "y", "y"] * 2
    assert found.columns_test["client"].tolist() == ["x", "x", "y", "y"] * 2


def test_clients_that_folders_name_need_not_be_named_again() -> None:
    """Neither the samples nor the name of the run's folder are dealt by the default partition."""
    pictures(USERS)
    name = "users(folders=client/class)"
    assert Spec(dataset=name).partition == "by(client)"
    assert Spec(dataset=name, partition="iid").partition == "iid"
    assert Spec(dataset="users").partition == "dirichlet(0.1)"
    run = unskew.run(dataset=name, rounds=1, evaluate_clients=True, progress=False, engine="loop")
    assert run.job.roster.names == ("ann", "bob", "cy")
    assert run.folder.lines[-1]["worst_client"] in run.job.roster.names


def test_clients_that_share_some_classes_are_noticed() -> None:
    """Who holds few classes is the usual case: bob has no cat, and no folder is in all three."""
    pictures(USERS | {"users/dee/owl": 20})
    with pytest.warns(
        UserWarning, match=r'several of them hold the folders cat, dog; .* write "users\(folders='
    ):
        load("./users")


@pytest.mark.parametrize(
    ("folder", "folders", "sentence"),
    [
        (
            "users/ann",
            "client/class",
            "0.png lies in a folder of its client alone; with folders=client/class put",
        ),
        (
            "users/ann/cat",
            "client/class/day",
            "folders of images must be class or client/class or class/client",
        ),
        ("users", "client/class", "users holds no images as client/class; put them into users/CLIENT/CLASS/"),
    ],
)
def test_folders_that_are_something_else_are_refused(folder: str, folders: str, sentence: str) -> None:
    pictures({folder: 5})
    with pytest.raises(InputError) as problem:
        load("./users", folders=folders)
    assert sentence in str(problem.value)


def table(name: str, **changed: Any) -> None:
    """Twenty rows, the mean of whose values tells the site."""
    Path("sites").mkdir(exist_ok=True)
    values = {
        "age": np.arange(20.0) + 0.5 + 100 * len(name),
        "sex": ["f", "m"] * 10,
        "ill": ["no", "yes"] * 10,
    }
    pd.DataFrame(values | changed).drop(columns=[c for c, v in changed.items() if v is None]).to_csv(
        f"sites/{name}.csv", index=False
    )


def test_a_folder_of_tables_has_a_client_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "bb", "ccc"):
        table(name)
    found = load("./sites", label="ill")
    assert (found.name, len(found), len(found.y_test)) == ("sites", 48, 12)
    assert found.table is not None
    assert (found.table.features, found.table.clients) == (("age", "sex=f", "sex=m"), ("client",))
    for x, owners in ((found.x, found.columns["client"]), (found.x_test, found.columns_test["client"])):
        assert [("a", "bb", "ccc")[int(age // 100) - 1] for age in x[:, 0]] == owners.tolist()
    assert Spec(dataset="./sites", label="ill").partition == "by(client)"
    assert Spec(dataset="./sites", label="ill", client="sex").partition == "by(sex)"
    assert main(["diagnose", "sites", "--label", "ill"]) == 0
    assert "sites · by(column=client) · seed 0 · 3 clients · 48 training samples" in capsys.readouterr().out


def test_a_run_on_a_folder_of_tables_predicts_such_a_folder() -> None:
    """With each client's own scale, which needs the column that no file has."""
    for name in ("a", "bb", "ccc"):
        table(name)
    settings: dict[str, Any] = {"rounds": 1, "progress": False, "engine": "loop", "fit": "client"}
    run = unskew.run(dataset="sites", label="ill", **settings)
    assert run.job.roster.names == ("a", "bb", "ccc")
    answers = run.predict("sites")
    assert len(answers.labels) == 60
    assert answers.frame()["client"].tolist() == ["a"] * 20 + ["bb"] * 20 + ["ccc"] * 20


def test_another_column_may_say_who_the_clients_are() -> None:
    table("a")
    table("bb")
    found = load("./sites", label="ill", client="sex")
    assert list(found.columns) == ["sex"]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"age": None},
            "sites/bb.csv has no column 'age', and a.csv has; give all tables the same columns, or write d",
        ),
        (
            {"more": 1},
            "sites/a.csv has no column 'more', and bb.csv has; give all tables the same columns, or write dr",
        ),
        (
            {"client": 1},
            "sites/bb.csv has a column 'client', which is to say whose table a row is from; call it somet",
        ),
        (
            {"age": [1.0] * 10 + [None] * 10},
            "column 'age' of sites is empty or NaN in 10 of 40 rows, first in line 12 of bb.csv; fill them in",
        ),
    ],
)
def test_tables_that_do_not_fit_together_are_refused(changed: dict[str, Any], sentence: str) -> None:
    table("a")
    table("bb", **changed)
    with pytest.raises(InputError) as problem:
        load("./sites", label="ill")
    assert str(problem.value).startswith(sentence)


def test_a_folder_that_holds_no_clients_tables_says_what_to_write() -> None:
    table("train")
    Path("sites/train.csv").rename("sites/mine.csv")
    with pytest.raises(InputError, match=r"^sites holds a single table; write sites/mine.csv$"):
        load("./sites", label="ill")
    table("train")
    table("test")
    with pytest.raises(
        InputError, match=r"sites holds test.csv, train.csv, and in a folder of tables each is a"
    ):
        load("./sites", label="ill")


def test_a_table_beside_folders_of_images_is_passed_over() -> None:
    pictures({"pets/cat": 5, "pets/dog": 90})
    Path("pets/about.csv").write_text("a,b\n1,2\n")
    assert load("./pets").labels == ("cat", "dog")


def test_rows_without_a_label_are_left_out_where_there_is_a_rule_for_what_is_missing() -> None:
    """No rule can fill a label in; and complaints still name the lines of the file."""
    frame = pd.DataFrame({"age": np.arange(20.0) / 2, "ill": ["no", "yes"] * 10})
    frame.loc[[3, 4], "ill"] = None
    frame.loc[7, "age"] = np.nan
    frame.to_csv("visits.csv", index=False)
    with pytest.raises(
        InputError, match=r"the label 'ill' of visits.csv is empty in 2 of 20 rows, first in line 5; f"
    ):
        load("visits.csv", label="ill")
    found = load("visits.csv", label="ill", impute="median")
    assert found.table is not None
    assert (len(found) + len(found.y_test), found.table.unlabelled) == (18, 2)
    assert ("label", "ill; 2 rows without one left out") in found.table.told("visits.csv")
    assert {1.5, 2.0}.isdisjoint({*found.x[:, 0].tolist(), *found.x_test[:, 0].tolist()})
    frame["age"] = frame["age"].astype(object)
    frame.loc[9, "age"] = "old"
    frame.to_csv("visits.csv", index=False)
    with pytest.raises(InputError, match=r"first 'old' in line 11; correct them"):
        load("visits.csv", label="ill", impute="median")

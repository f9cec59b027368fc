"""What becomes of a table's columns: features, identifiers, words, gaps; and that it is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unskew
from unskew.cli import main
from unskew.data import load
from unskew.data.cells import Place
from unskew.data.columns import Columns
from unskew.errors import InputError

N = 60


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "patient_id": np.arange(N) * 7 + 1000,
            "visit_id": np.arange(N) // 3,
            "age": rng.integers(20, 60, N).astype(float),
            "bmi": rng.normal(27, 4, N),
            "sex": np.array(["f", "m"])[rng.integers(0, 2, N)],
            "admitted": [f"2024-01-{1 + k % 28:02d}" for k in range(N)],
            "notes": [f"note {k}" for k in range(N)],
            "scan": np.nan,
            "site": np.array(["north", "south", "east"])[np.arange(N) % 3],
            "outcome": np.array(["ill", "well"])[np.arange(N) % 2],
        }
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "patients.csv"
    patients().to_csv(path, index=False)
    return path


def test_every_column_is_a_feature_or_says_why_it_is_none(table: Path) -> None:
    """Identifiers, dates, texts and empty columns are left out, each with its reason."""
    columns = load(table, label="outcome", client="site").table
    assert columns is not None
    assert columns.features == ("age", "bmi", "sex=f", "sex=m")
    assert columns.unused == {
        "patient_id": "whole numbers that all differ, like an identifier",
        "visit_id": "named like an identifier",
        "admitted": "dates or times",
        "notes": "words that all differ, like an identifier",
        "scan": "empty",
    }
    told = dict(columns.told("patients.csv"))
    assert told["features"] == "4 inputs from 3 columns of patients.csv: age, bmi, sex (2 categories)"
    assert "patient_id (whole numbers that all differ, like an identifier)" in told["not used"]
    assert "discloses the column means and deviations" in told["fitted"]


def test_features_and_drop_decide_over_the_rules(table: Path) -> None:
    """Named columns are taken, identifiers too; several may stand between commas."""
    taken = load(table, label="outcome", features="age,patient_id").table
    assert taken is not None
    assert taken.features == ("patient_id", "age")
    left = load(table, label="outcome", client="site", drop=("sex", "bmi")).table
    assert left is not None
    assert left.features == ("age",)
    assert left.unused["sex"] == "dropped"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": "agee"}, "in {path} there is no feature column 'agee'; did you mean 'age'?"),
        ({"drop": "bmo"}, "in {path} there is no dropped column 'bmo'; did you mean 'bmi'?"),
        ({"features": "outcome"}, "column 'outcome' of {path} is the label; take it out of features"),
        (
            {"features": "age", "drop": "age"},
            "column 'age' of {path} is both in features and in drop; keep one",
        ),
        ({"features": "scan"}, "column 'scan' of {path} cannot be a feature: empty"),
        ({"impute": "mean"}, "impute of table must be median or most_frequent or drop, not mean"),
    ],
)
def test_a_bad_choice_of_columns_is_one_sentence(options: dict[str, str], message: str, table: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(table, label="outcome", **options)
    assert str(caught.value) == message.format(path=table)


def with_gaps(path: Path) -> pd.DataFrame:
    frame = patients()
    frame.loc[[3, 4, 5], "bmi"] = np.nan
    frame.loc[[8, 9], "sex"] = None
    frame.to_csv(path, index=False)
    return frame


def test_missing_values_are_refused_without_a_rule(table: Path) -> None:
    """The sentence says which rules there are."""
    with_gaps(table)
    with pytest.raises(InputError, match="write impute=median, impute=most_frequent or impute=drop"):
        load(table, label="outcome", client="site")


@pytest.mark.parametrize("rule", ["median", "most_frequent"])
def test_missing_values_are_filled_from_training_rows_alone(rule: str, table: Path) -> None:
    """The fill is that of the training rows: a test row with a wild value moves it by nothing."""
    frame = with_gaps(table)
    data = load(table, label="outcome", client="site", impute=rule)
    assert data.table is not None
    fill = data.table.fills["bmi"]
    # which rows train is decided by the labels; their features are found again by the column bmi itself
    known = frame["bmi"].dropna().to_numpy(np.float32)
    train = frame["bmi"].isin([v for v in frame["bmi"] if np.float32(v) in set(data.x[:, 1].tolist())])
    assert len(known) == N - 3
    numbers = frame.loc[train, "bmi"].dropna()
    expected = numbers.median() if rule == "median" else numbers.mode()[0]
    assert fill == pytest.approx(expected)
    assert data.table.fills["sex"] in ("f", "m")
    assert data.table.missing == {"bmi": 3, "sex": 2}
    told = dict(data.table.told("t"))["missing"]
    assert told.startswith("3 in bmi, 2 in sex; filled with the ")


def test_drop_leaves_out_rows_with_gaps(table: Path) -> None:
    with_gaps(table)
    data = load(table, label="outcome", client="site", impute="drop")
    assert len(data) + len(data.y_test) == N - 5
    assert data.table is not None
    assert dict(data.table.told("t"))["missing"] == "3 in bmi, 2 in sex; 5 rows left out"


def test_a_question_mark_is_missing_where_there_is_a_rule(table: Path) -> None:
    """As many published tables write it."""
    frame = patients().astype({"age": object})
    frame.loc[[1, 2], "age"] = "?"
    frame.to_csv(table, index=False)
    data = load(table, label="outcome", client="site", impute="median")
    assert data.table is not None
    assert data.table.missing == {"age": 2}


def test_each_client_can_be_scaled_by_its_own_rows(table: Path) -> None:
    """With fit=client every client's numbers have mean 0 and deviation 1, and only categories are common."""
    frame = patients()
    frame["bmi"] += frame["site"].map({"north": 0, "south": 100, "east": -50})
    frame.to_csv(table, index=False)
    data = load(table, label="outcome", client="site", fit="client")
    assert data.table is not None
    for site in ("north", "south", "east"):
        mine = data.x[data.columns["site"] == site][:, :2]
        assert mine.mean(0) == pytest.approx([0, 0], abs=1e-5)
        assert mine.std(0) == pytest.approx([1, 1], abs=1e-5)
    assert (data.mean == 0).all()
    assert (data.std == 1).all()
    assert data.table.disclosure == "categories of the columns of words over all clients"
    with pytest.raises(InputError, match="must know whose they are; write client= and a column"):
        load(table, label="outcome", fit="client", drop="site")


def test_what_was_fitted_comes_back_from_json_and_takes_raw_rows(table: Path) -> None:
    """The same rows give the same features after the way through JSON; new words are said."""
    with_gaps(table)
    for fit in ("all", "client"):
        columns = load(table, label="outcome", client="site", impute="median", fit=fit).table
        assert columns is not None
        again = Columns.of(json.loads(json.dumps(columns.as_dict())))
        raw = pd.read_csv(table)
        assert np.array_equal(columns.rows(raw, Place("t", 2))[0], again.rows(raw, Place("t", 2))[0])
        with pytest.warns(UserWarning, match="column 'sex' holds what no training row holds \\('x'\\)"):
            assert again.rows(raw.assign(sex="x"), Place("t", 2))[0][:, 2:].sum() == 0
    with pytest.raises(InputError, match="the client 'west' in line 2 of t took no part in training"):
        again.rows(raw.assign(site="west"), Place("t", 2))
    with pytest.raises(InputError, match=r"^t lacks the column age; it has patient_id, visit_id, bmi"):
        again.rows(raw.drop(columns="age"), Place("t", 2))


def test_a_table_of_numbers_is_read_as_before(tmp_path: Path) -> None:
    """Nothing is filled, reordered or scaled: the features are the columns."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=list("abc")).assign(label=[0, 1] * 20)
    frame.to_csv(tmp_path / "t.csv", index=False)
    data = load(tmp_path / "t.csv")
    held = unskew.from_arrays(frame[list("abc")].to_numpy(), frame["label"].to_numpy())
    assert np.array_equal(data.x, held.x)
    assert np.array_equal(data.x_test, held.x_test)
    assert np.array_equal(data.mean, held.mean)


@pytest.mark.parametrize("command", ["diagnose", "partition", "run"])
def test_every_command_says_what_became_of_the_columns(
    command: str, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In words, and as JSON."""
    with_gaps(table)
    flags = ["--label", "outcome", "--impute", "median", "--drop", "sex"]
    words = {
        "diagnose": ["diagnose", str(table), "--by", "site", *flags],
        "partition": ["partition", str(table), "by(site)", *flags],
        "run": [
            "run", "--dataset", str(table), "--partition", "by(site)", "--cohort", "2", "--rounds", "1",
            *flags, "-o", str(tmp_path / "run"),
        ],
    }[command]  # fmt: skip
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "features  2 inputs from 2 columns of patients.csv: age, bmi" in said
    assert "sex (dropped)" in said
    assert "3 in bmi; filled with the median of the training rows" in said
    if command == "run":
        words = [*words[:-1], str(tmp_path / "again")]
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    told = told["data"] if command == "run" else told
    assert told["table"]["features"] == ["age", "bmi"]
    assert told["table"]["unused"]["sex"] == "dropped"


def test_settings_of_a_table_work_in_toml_and_are_kept(table: Path, tmp_path: Path) -> None:
    """The same names as the flags; a number is still the share of clients that never answer."""
    experiment = tmp_path / "e.toml"
    experiment.write_text(
        f'dataset = "{table}"\nlabel = "outcome"\npartition = "by(site)"\ncohort = 2\nrounds = 1\n'
        'features = ["age", "bmi"]\nimpute = "median"\nfit = "client"\n'
    )
    with_gaps(table)
    assert main(["run", str(experiment), "-o", str(tmp_path / "run"), "--drop", "0.1", "--json"]) == 0
    kept = json.loads((tmp_path / "run" / "spec.json").read_text())
    assert kept["spec"]["features"] == ["age", "bmi"]
    assert kept["spec"]["drop"] == 0.1
    assert kept["data"]["table"]["fit"] == "client"
    assert unskew.Spec.of({"drop": ["a", "b"]}).drop_columns == ("a", "b")


def test_a_setting_of_tables_is_refused_for_other_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "digits", "--impute", "median"]) == 2
    assert (
        "--impute is about the columns of a table (.csv, .parquet), but digits is none"
        in capsys.readouterr().err
    )
    with pytest.raises(InputError, match="impute is about the columns of a table"):
        unskew.run(dataset="digits", impute="median", progress=False)


def test_means_over_several_sites_are_disclosed(table: Path) -> None:
    """A run's result says so beside what the method discloses; fitted by client, it does not."""
    settings = {
        "label": "outcome",
        "partition": "by(site)",
        "cohort": 2,
        "rounds": 1,
        "drop_columns": ["sex"],
    }
    shared = unskew.run(dataset=str(table), progress=False, **settings)  # type: ignore[arg-type]
    assert shared.result["discloses"] == ["column means and deviations over all clients"]
    own = unskew.run(dataset=str(table), progress=False, fit="client", **settings)  # type: ignore[arg-type]
    assert own.result["discloses"] == []


def test_a_frame_is_read_as_its_file_is(table: Path) -> None:
    """The same features, labels and split; what comes too late for it in a run is refused."""
    options = {"label": "outcome", "client": "site", "drop": ["bmi"]}
    made, read = unskew.from_frame(patients(), **options), load(table, **{**options, "drop": ("bmi",)})  # type: ignore[arg-type]
    assert np.array_equal(made.x, read.x)
    assert np.array_equal(made.x_test, read.x_test)
    apart = unskew.from_frame(patients()[:40], "outcome", frame_test=patients()[40:])
    assert (len(apart), len(apart.y_test)) == (40, 20)
    with pytest.raises(
        InputError, match="impute comes too late for data given in Python; give it to from_frame"
    ):
        unskew.run(dataset=made, partition="by(site)", impute="median", progress=False)
    with pytest.raises(InputError, match=r"not DataFrame; give unskew.from_frame\(frame, label=...\)"):
        unskew.run(dataset=patients(), progress=False)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="impute of table must be median or most_frequent or drop, not mode"):
        unskew.from_frame(patients(), "outcome", impute="mode")  # type: ignore[arg-type]


def test_texts_are_not_offered_to_split_by(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A diagnosis without a client column names the columns of categories alone."""
    assert main(["diagnose", str(table), "--label", "outcome"]) == 2
    assert "can be split by sex or site; add --by sex" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rule", ["median", "most_frequent"])
def test_gaps_and_words_become_what_scikit_learn_makes_of_them(rule: str, seed: int) -> None:
    """Fills, of several as frequent the first in order too, and one input a category."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, 6, 40 + seed) / 2
    words = rng.choice(np.array(["ä", "b", "B", "aa"], object), len(numbers))
    numbers[rng.random(len(numbers)) < 0.2] = np.nan
    words[rng.random(len(words)) < 0.2] = None
    frame = pd.DataFrame({"size": numbers, "kind": words, "label": np.arange(len(numbers)) % 2})
    held = frame.iloc[:4].assign(held=True)
    told = pd.concat([frame.assign(held=False), held], ignore_index=True)
    data = unskew.from_frame(told, label="label", impute=rule, test_column="held")
    assert data.table is not None
    filled = SimpleImputer(strategy=rule).fit_transform(numbers[:, None])
    said = SimpleImputer(strategy="most_frequent", missing_values=None).fit_transform(words[:, None])
    encoder = OneHotEncoder(sparse_output=False).fit(said)
    wanted = np.column_stack([filled, encoder.transform(said)]).astype(np.float32)
    assert data.table.categories["kind"] == tuple(encoder.categories_[0])
    assert np.array_equal(data.x, wanted)

"""Own data as CSV and Parquet tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unskew.data import load
from unskew.errors import InputError

FRAME = pd.DataFrame(
    {
        "speed": np.linspace(0, 1, 20),
        "steps": np.arange(20),
        "city": ["Rome", "Oslo"] * 10,
        "subject": np.arange(20) // 5,
        "activity": ["walk", "sit", "run", "sit"] * 5,
    }
)


def write(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix in (".parquet", ".pq"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "pq"])
def test_a_table_gives_features_labels_and_client_columns(ending: str, tmp_path: Path) -> None:
    """Numbers are features but for the named client column; words are columns too."""
    path = write(FRAME, tmp_path / f"har.{ending}")
    data = load(path, label="activity", client="subject", test=0)
    assert data.labels == ("run", "sit", "walk")
    assert data.y.tolist() == [2, 1, 0, 1] * 5
    assert data.x == pytest.approx(FRAME[["speed", "steps"]].to_numpy(), abs=1e-6)
    assert (data.kind, data.name) == ("vector", "har")
    assert list(data.columns) == ["subject", "city"]
    assert data.columns["subject"].tolist() == (np.arange(20) // 5).tolist()
    assert data.columns["city"].tolist() == ["Rome", "Oslo"] * 10


def test_options_can_be_written_after_the_path(tmp_path: Path) -> None:
    path = write(FRAME, tmp_path / "my har.csv")
    data = load(f"{path}(label=activity, client=[subject, steps], test=0.25)")
    assert list(data.columns) == ["subject", "steps", "city"]
    assert data.shape == (1,)
    assert len(data.y_test) == 5  # a quarter of 5, 10 and 5, each rounded half up: 1 + 3 + 1


@pytest.mark.parametrize("name", ["label", "Class", "y", "target"])
def test_a_label_column_of_a_usual_name_is_found(name: str, tmp_path: Path) -> None:
    path = write(FRAME.rename(columns={"activity": name}), tmp_path / "t.csv")
    assert load(path).labels == ("run", "sit", "walk")


def test_a_second_table_can_be_the_test_set(tmp_path: Path) -> None:
    write(FRAME[:6], tmp_path / "later.csv")
    path = write(FRAME[::-1], tmp_path / "t.csv")
    data = load(path, label="activity", client="subject", test="later.csv")
    assert (len(data), len(data.y_test)) == (20, 6)
    assert data.x_test[:, 1].tolist() == [0, 1, 2, 3, 4, 5]


def test_labels_that_are_numbers_keep_their_names(tmp_path: Path) -> None:
    frame = FRAME.assign(label=[3, 1] * 10)
    data = load(write(frame, tmp_path / "t.csv"), test=0)
    assert (data.labels, data.y[:2].tolist()) == (("1", "3"), [1, 0])


def test_true_and_false_are_features(tmp_path: Path) -> None:
    frame = pd.DataFrame({"on": [True, False] * 4, "label": [0, 1] * 4})
    assert load(write(frame, tmp_path / "t.csv"), test=0).x[:2].tolist() == [[1.0], [0.0]]


def _gap(column: str, row: int, value: object) -> pd.DataFrame:
    frame = FRAME.astype({column: object})
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            FRAME,
            {"label": "activty"},
            "in {path} there is no label column 'activty'; did you mean 'activity' or 'city'?",
        ),
        (
            FRAME,
            {"label": "activity", "client": "subjects"},
            "in {path} there is no client column 'subjects'; did you mean 'subject'?",
        ),
        (
            FRAME,
            {},
            "{path} has no column called label, class, y or target; write label= and one of "
            "speed, steps, city, subject, activity",
        ),
        (
            FRAME.assign(label=1, y=2),
            {},
            "{path} has 2 columns that could be the label, label and y; write label=label",
        ),
        (
            _gap("speed", 4, None),
            {"label": "activity"},
            "column 'speed' of {path} is empty, NaN or infinite in 1 of 20 rows, first in line 6; fill them in or "
            "drop those rows",
        ),
        (
            FRAME.assign(speed=np.inf),
            {"label": "activity"},
            "column 'speed' of {path} is empty, NaN or infinite in 20 of 20 rows, first in line 2; fill them in or "
            "drop those rows",
        ),
        (
            _gap("speed", 9, "?"),
            {"label": "activity"},
            "column 'speed' of {path} holds numbers except for 1 of 20 rows, first '?' in line 11; correct them, "
            "or name it with client=speed",
        ),
        (
            _gap("activity", 3, None),
            {"label": "activity"},
            "the label 'activity' of {path} is empty in line 5; fill it in or drop it",
        ),
        (
            _gap("subject", 3, None),
            {"label": "activity", "client": "subject"},
            "column 'subject' of {path} is empty in line 5",
        ),
        (
            FRAME,
            {"label": "speed"},
            "the label 'speed' of {path} must be whole numbers or words, but line 3 has 0.05263157894736842",
        ),
        (
            FRAME,
            {"label": "activity", "client": "activity"},
            "column 'activity' of {path} cannot be both the label and a client column",
        ),
        (
            FRAME[["city", "activity"]],
            {"label": "activity"},
            "{path} has no column of numbers to learn from besides the label 'activity'",
        ),
        (FRAME[:0], {"label": "activity"}, "{path} has no rows below the names of its columns"),
        (
            FRAME,
            {"label": "activity", "test": "none.csv"},
            "there is no file {folder}/none.csv to test on",
        ),
        (
            FRAME,
            {"lable": "activity"},
            "table has no parameter 'lable'; it is table(label=none, client=none, test=0.2, seed=0, sep=none)",
        ),
    ],
)
def test_a_bad_table_is_refused_in_one_sentence(
    frame: pd.DataFrame, options: dict[str, str], message: str, tmp_path: Path
) -> None:
    path = write(frame, tmp_path / "t.csv")
    with pytest.raises(InputError) as caught:
        load(path, **options)
    assert str(caught.value) == message.format(path=path, folder=tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path} is empty; its first line must name the columns"


def test_semicolons_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;label\n1;x\n2;y\n3;x\n4;y\n")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path} seems to be separated by semicolons; write sep=';'"
    assert load(f"{path}(sep=';')").labels == ("x", "y")


def test_lines_of_unequal_length_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1,x\n2,y,9\n3,x\n")
    with pytest.raises(InputError, match=f"^{path} cannot be read as a table .*line 3"):
        load(path)


@pytest.mark.parametrize("data", [b"", b"PAR1 and then nothing", b"a,b\n1,2\n"])
def test_what_is_no_parquet_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"^{path} cannot be read as a table "):
        load(path)

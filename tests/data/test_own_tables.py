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
        "steps": np.arange(20) % 13,
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
    """Numbers are features but for the named client column; words are one-hot, and columns to split by too."""
    path = write(FRAME, tmp_path / f"har.{ending}")
    data = load(path, label="activity", client="subject", test=0)
    assert data.labels == ("run", "sit", "walk")
    assert data.y.tolist() == [2, 1, 0, 1] * 5
    assert data.x[:, :2] == pytest.approx(FRAME[["speed", "steps"]].to_numpy(), abs=1e-6)
    assert data.x[:3, 2:].tolist() == [[0, 1], [1, 0], [0, 1]]  # Oslo, Rome
    assert (data.kind, data.name) == ("vector", "har")
    assert list(data.columns) == ["subject", "city"]
    assert data.columns["subject"].tolist() == (np.arange(20) // 5).tolist()
    assert data.columns["city"].tolist() == ["Rome", "Oslo"] * 10


def test_options_can_be_written_after_the_path(tmp_path: Path) -> None:
    path = write(FRAME, tmp_path / "my har.csv")
    data = load(f"{path}(label=activity, client=[subject, steps], test=0.25)")
    assert list(data.columns) == ["subject", "steps", "city"]
    assert data.shape == (3,)
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
            "column 'speed' of {path} is empty or NaN in 1 of 20 rows, first in line 6; fill them in, or write "
            "impute=median, impute=most_frequent or impute=drop",
        ),
        (
            FRAME.assign(speed=np.inf),
            {"label": "activity"},
            "column 'speed' of {path} is infinite in 20 of 20 rows, first in line 2; correct them or drop those rows",
        ),
        (
            _gap("speed", 9, "?"),
            {"label": "activity"},
            "column 'speed' of {path} holds numbers except for 1 of 20 rows, first '?' in line 11; correct them, "
            "or write drop=speed or a rule such as impute=median",
        ),
        (
            _gap("activity", 3, None),
            {"label": "activity"},
            "the label 'activity' of {path} is empty in 1 of 20 rows, first in line 5; fill it in, or write a rule for "
            "missing values such as impute=median, which leaves rows without a label out",
        ),
        (
            _gap("subject", 3, None),
            {"label": "activity", "client": "subject"},
            "column 'subject' of {path}, which says who holds a row, is empty in 1 of 20 rows, first in line 5; fill "
            "them in, or take those rows out",
        ),
        (
            FRAME,
            {"label": "speed"},
            "the label 'speed' of {path} must be whole numbers or words, but line 3 has 0.05263157894736842; "
            "name classes by words, or choose another label",
        ),
        (
            FRAME,
            {"label": "activity", "client": "activity"},
            "column 'activity' of {path} cannot be both the label and a client column",
        ),
        (
            FRAME[["city", "activity"]],
            {"label": "activity", "client": "city"},
            "{path} has no column to learn from besides the label 'activity'",
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
            "table has no parameter 'lable'; it is table(label=none, client=none, test=0.2, seed=0, sep=none, "
            "features=[], drop=[], impute=none, fit=all, test_column=none)",
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


@pytest.mark.parametrize("named", [{}, {"label": "label"}, {"label": "a;label"}])
def test_semicolons_are_noticed(tmp_path: Path, named: dict[str, str]) -> None:
    """Also where the label column is named, which is then in no column."""
    path = tmp_path / "t.csv"
    path.write_text("a;label\n1;x\n2;y\n3;x\n4;y\n")
    with pytest.raises(InputError) as caught:
        load(path, **named)
    assert (
        str(caught.value)
        == f"{path} seems to be separated by semicolons; write sep=';', as in \"t.csv(sep=';')\""
    )
    assert load(f"{path}(sep=';')").labels == ("x", "y")


@pytest.mark.parametrize("first", [0, 7])
def test_a_value_without_a_name_in_every_line_is_refused(first: int, tmp_path: Path) -> None:
    """It would shift every column by one, the label too."""
    path = tmp_path / "t.csv"
    path.write_text("label,a,b\n" + "".join(f"{first + k},{k % 2},{k},{k}\n" for k in range(9)))
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"line 2 of {path} has 4 values, the header 3 names; name every column or take out what has no name"
    )


@pytest.mark.parametrize("header", ["a,b,label", "a,b,label,"])
def test_a_comma_at_the_end_of_every_line_is_no_column(header: str, tmp_path: Path) -> None:
    """Some programs write one; the label before it is still the label."""
    path = tmp_path / "t.csv"
    path.write_text(f"{header}\n" + "".join(f"{k},5,{'xy'[k % 2]},\n" for k in range(8)))
    data = load(path, test=0)
    assert (data.labels, data.shape, data.x[3].tolist()) == (("x", "y"), (2,), [3.0, 5.0])


def test_semicolons_are_noticed_with_decimal_commas_too(tmp_path: Path) -> None:
    """There the lines have more values than the header only because the commas are no separators."""
    path = tmp_path / "t.csv"
    path.write_text("a;label\n1,5;x\n2,5;y\n")
    with pytest.raises(InputError, match=r"seems to be separated by semicolons; write sep=';', as in"):
        load(path)


def test_a_value_that_needs_quotes_is_told_so_with_the_files_own_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;label\n1;x\n2;y\n")
    with pytest.raises(InputError) as caught:
        load(f"{path}(sep=;)")
    assert str(caught.value) == f"cannot read '{path}(sep=;)' at ';)'; put the value in quotes, \";\""


@pytest.mark.parametrize("number", ["36,5", "1.234,5", "1,234", "-0,5e3"])
def test_numbers_with_commas_are_not_taken_for_words(number: str, tmp_path: Path) -> None:
    """As programs write them in much of Europe; one-hot or passed over they would be lost."""
    path = tmp_path / "t.csv"
    path.write_text("a;b;label\n" + "".join(f"{k};{number};{'xy'[k % 2]}\n" for k in range(8)))
    with pytest.raises(InputError) as caught:
        load(path, sep=";")
    assert str(caught.value) == (
        f"column 'b' of {path} holds numbers with commas, such as '{number}'; write a decimal point and no other sign, "
        "or drop=b"
    )
    assert load(path, sep=";", drop="b", test=0).table.used == ("a",)


@pytest.mark.parametrize("others", [("36", "1"), ("36.5", "-.5e3"), ("36", "-")])
def test_nor_are_those_beside_numbers_without_one(others: tuple[str, str], tmp_path: Path) -> None:
    """Whole numbers have no decimal comma, and those below a thousand no other: 36 beside 36,5."""
    path = tmp_path / "t.csv"
    rows = [*others, "36,5", "37,25", "1.000,5", "8,1"]
    path.write_text("a;b;label\n" + "".join(f"{k};{rows[k]};{'xy'[k % 2]}\n" for k in range(6)))
    with pytest.raises(
        InputError, match=r"column 'b' of .* holds numbers with commas, such as '36,5'; write"
    ):
        load(path, sep=";")


def test_words_beside_numbers_with_commas_are_words(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "a;b;label\n" + "".join(f"{k};{('36,5', 'high')[k % 3 % 2]};{'xy'[k % 2]}\n" for k in range(8))
    )
    assert load(path, sep=";", test=0).table.used == ("a", "b")


@pytest.mark.parametrize("name", ["a", "NA"])
def test_a_name_that_a_header_has_twice_is_refused(name: str, tmp_path: Path) -> None:
    """As a DataFrame's is; of words that elsewhere say that a value is missing, too."""
    path = tmp_path / "t.csv"
    path.write_text(f"{name},{name},label\n1,2,x\n3,4,y\n")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path} has two columns called '{name}'; give every column its own name"


def test_a_tab_is_read_as_our_sentence_writes_it(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """A shell hands over a backslash and a t; pandas would take them for a pattern, and say so."""
    path = tmp_path / "t.csv"
    path.write_text("a\tlabel\n1\tx\n2\ty\n")
    with pytest.raises(InputError) as caught:
        load(path)
    advised = str(caught.value).partition("as in ")[2].strip('"')
    assert advised == r"t.csv(sep='\t')"
    assert load(f"{tmp_path}/{advised}", test=0).table.used == ("a",)
    assert not recwarn.list


def test_classes_that_differ_in_capitals_or_spaces_alone_are_told(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n" + "".join(f"{k / 2},{('Yes', 'No', 'no ')[k % 3]}\n" for k in range(12)))
    with pytest.warns(UserWarning, match="has 'No' and 'no ', which differ in capitals or spaces alone"):
        assert load(path).labels == ("No", "Yes", "no ")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_told_to_be_one(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("größe,label\n1,x\n2,y\n", encoding=encoding)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path} is not written in UTF-8; save it as CSV in UTF-8 and read that"


@pytest.mark.parametrize("labels", [["2e300", "1e300"], [2**63 + 5, 2**63 + 6]])
def test_labels_too_large_to_tell_apart_are_refused(labels: list[object], tmp_path: Path) -> None:
    """As int64 they would be one class, or have negative names."""
    path = write(pd.DataFrame({"a": np.arange(8), "label": labels * 4}), tmp_path / "t.csv")
    with pytest.raises(InputError) as caught:
        load(path)
    shown = "2e+300" if "2e300" in labels else labels[0]
    assert str(caught.value) == (
        f"the label 'label' of {path} is {shown} in line 2, too large a number to tell classes apart by; write "
        "smaller numbers or words"
    )


def test_numbers_too_large_for_float32_are_said_to_be_so(tmp_path: Path) -> None:
    """They are neither empty nor infinite in the file."""
    path = write(pd.DataFrame({"a": [1.0, 1e300] * 4, "label": [0, 1] * 4}), tmp_path / "t.csv")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"column 'a' of {path} has 1e+300 in line 3, which is too large for float32, which ends at 3.4e38; "
        "scale the column"
    )


def test_a_label_column_of_lists_is_refused(tmp_path: Path) -> None:
    """Parquet can hold lists; a class is no list."""
    path = write(pd.DataFrame({"a": np.arange(4.0), "label": [[0], [1]] * 2}), tmp_path / "t.parquet")
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"the label 'label' of {path} must be whole numbers or words, but row 0 has [0]"
    )


@pytest.mark.parametrize("error", [KeyError("schema"), TypeError("no name"), NotImplementedError()])
def test_whatever_damaged_parquet_raises_is_one_sentence(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken metadata fails deep in the reader, with errors of many kinds."""

    def fail(path: Path) -> None:
        raise error

    path = write(FRAME, tmp_path / "t.parquet")
    monkeypatch.setattr(pd, "read_parquet", fail)
    with pytest.raises(InputError, match=f"^{path} cannot be read as a table "):
        load(path)


def test_lines_of_unequal_length_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,label\n1,x\n2,y,9\n3,x\n")
    with pytest.raises(InputError, match=f"^line 3 of {path} has 3 values, the header 2 names"):
        load(path)


@pytest.mark.parametrize("data", [b"", b"PAR1 and then nothing", b"a,b\n1,2\n"])
def test_what_is_no_parquet_file_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(data)
    with pytest.raises(InputError, match=f"^{path} cannot be read as a table "):
        load(path)

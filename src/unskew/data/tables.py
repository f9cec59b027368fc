"""Own data as a table: CSV or Parquet with a label column and, if there are any, client columns."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import Impute, Kept, Place, missing_words, no_column, parse_numbers, words_of
from unskew.data.columns import Columns, Fit, fit_columns
from unskew.data.dataset import Dataset, too_large_label
from unskew.data.own import class_codes, from_arrays, split_held_out
from unskew.data.roles import choose_roles
from unskew.errors import InputError
from unskew.expression import Call, build
from unskew.notices import warn

if TYPE_CHECKING:
    from pandas import DataFrame, Series

USUAL_LABELS = ("label", "class", "y", "target")


@dataclass(frozen=True)
class Table:
    """A .csv, .tsv or .parquet file: one column is the label, the others are the features.

    ``label`` names that column; without it the one called label, class, y or target. ``client`` names a
    column or several that clients are split by; columns of words can split them too. Columns of numbers are
    taken as they are, columns of words one-hot; identifiers, dates and texts are not features. ``features`` names
    those to take, ``drop`` those to leave out. ``impute`` is the rule for missing values: median, most_frequent or
    drop (the row). ``fit`` says whose training rows fills and scales are fitted to: those of all, or each client's
    own. ``test`` is the share to hold out, or the path of a second table to test on; ``test_column`` names one
    that says of each row whether it is to test on (test or train, 1 or 0, true or false).
    """

    name: ClassVar[str] = "table"

    label: str | None = None
    client: str | tuple[str, ...] | None = None
    test: float | str = 0.2
    seed: int = 0
    sep: str | None = None
    features: str | tuple[str, ...] = ()
    drop: str | tuple[str, ...] = ()
    impute: Impute | None = None
    fit: Fit = "all"
    test_column: str | None = None

    def read(self, path: Path) -> Dataset:
        """The table at ``path``."""
        frame = read_table(path, self.sep)
        return self.dataset(frame, place_of(path), path.stem, path.name, self.second(path))

    def second(self, path: Path) -> tuple[DataFrame, Place] | None:
        """The second table, where one is named to test on."""
        if not isinstance(self.test, str):
            return None
        if self.test_column is not None:
            raise InputError(
                f"test = {self.test} and test_column = {self.test_column} both say what to test on; keep one"
            )
        beside = Path(self.test).expanduser()
        if not os.path.exists(beside) and not beside.is_absolute():
            beside = path.parent / beside  # beside the table, as one would write it
        if not os.path.exists(beside):
            raise InputError(f"there is no file {beside} to test on")
        return read_table(beside, self.sep), place_of(beside)

    def dataset(
        self,
        frame: DataFrame,
        place: Place,
        name: str,
        source: str,
        held: tuple[DataFrame, Place] | None = None,
    ) -> Dataset:
        """A table's rows as a data set; those to test on are ``held``, or a share of them."""
        label, every = self.label_of(frame, place), len(frame)
        frame, place = self._labelled(frame, label, place)
        clients = _several(self.client) if self.client is not None else ()
        for column in clients:
            if column not in frame.columns:
                raise no_column("client", column, frame, place.where)
            if column == label:
                raise InputError(
                    f"column {column!r} of {place.where} cannot be both the label and a client column"
                )
            if (gap := np.asarray(frame[column].isna())).any():
                raise InputError(
                    f"column {column!r} of {place.where}, which says who holds a row, is empty in {int(gap.sum())} of "
                    f"{len(gap)} rows, first in {place.first(gap)}; fill them in, or take those rows out"
                )
        told, left = None, _several(self.drop)
        if self.test_column is not None and held is None:
            told = read_test_column(
                frame, self.test_column, (label, *clients, *_several(self.features)), place
            )
            left = (*left, self.test_column)
        columns = choose_roles(frame, label, clients, _several(self.features), left, self.impute, place)
        if told is not None and self.test_column is not None:
            columns = replace(columns, unused={**columns.unused, self.test_column: "says what to test on"})
        y, y_test = _labels(frame[label], place), None
        if held is not None:
            if label not in held[0].columns:
                raise no_column("label", label, held[0], held[1].where)
            held = self._labelled(held[0], label, held[1])
            y_test = _labels(held[0][label], held[1])
        gaps = {c: int(_gaps(frame[c], columns).sum()) for c in columns.used}
        whole = np.ones(len(frame), bool)
        if self.impute == "drop":
            for column in columns.used:
                whole &= ~_gaps(frame[column], columns)
            if not whole.any():
                raise InputError(
                    f"every row of {place.where} has a missing value, so impute=drop leaves none; write impute=median, "
                    "or drop= and the columns that are empty"
                )
        train = whole.copy()
        test = 0.0 if isinstance(self.test, str) else self.test
        if told is not None:
            train[whole] = ~told[whole]
            if not train.any() or not (whole & told).any():
                side = "train" if not train.any() else "test"
                raise InputError(f"column {self.test_column!r} of {place.where} leaves no row to {side} on")
        elif held is None:
            train[whole] = ~split_held_out(class_codes({"y": y[whole]}, None)[1]["y"], test, self.seed, name)
        columns = fit_columns(columns, frame, train, self.fit, place)
        columns = replace(
            columns,
            missing={c: n for c, n in gaps.items() if n},
            unlabelled=every - len(frame),
            dropped=int((~whole).sum()),
            sep=self.sep,
        )
        x = columns.rows(frame, place)[0]
        testing = whole & ~train
        x_test, labels_test = (x[testing], y[testing]) if testing.any() else (None, None)
        if held is not None:
            assert y_test is not None
            found, kept = columns.rows(*held)
            x_test, labels_test = found[kept], y_test[kept]
        aside = {c: _column(frame[c])[train] for c in (*clients, *_splitting(frame, columns))}
        made = from_arrays(
            x[train], y[train], x_test, labels_test, columns=aside, test=0.0, name=name, kind="vector", source=source
        )  # fmt: skip
        made = replace(
            made, table=columns, columns_test=_owners(clients, frame, testing, held, self.impute, columns)
        )
        if self.fit == "client":  # every row is scaled by its own client's numbers already
            made = replace(made, mean=np.zeros_like(made.mean), std=np.ones_like(made.std))
        return made

    def _labelled(self, frame: DataFrame, label: str, place: Place) -> tuple[DataFrame, Place]:
        """The rows that have a label, where a rule for missing values is given: no rule can fill a label in."""
        empty = np.asarray(frame[label].isna())
        if self.impute is None or not empty.any() or empty.all():
            return frame, place
        kept = np.flatnonzero(~empty)
        return frame.iloc[kept].reset_index(drop=True), Kept(place.where, place.first_row, place, kept)

    def label_of(self, frame: DataFrame, place: Place) -> str:
        """The label column: the one that is named, or the only one of a usual name."""
        path = place.where
        if len(frame.columns) == 1 and (problem := _other_separator(str(frame.columns[0]), path)):
            raise problem
        if self.label is not None:
            if self.label not in frame.columns:
                raise no_column("label", self.label, frame, path)
            return self.label
        usual = [c for c in frame.columns if c.strip().lower() in USUAL_LABELS]
        if len(usual) == 1:
            return str(usual[0])
        if usual:
            raise InputError(
                f"{path} has {len(usual)} columns that could be the label, {' and '.join(usual)}; "
                f"write label={usual[0]}"
            )
        raise InputError(
            f"{path} has no column called label, class, y or target; write label= and one of {_listed(frame)}"
        )


def from_frame(
    frame: DataFrame,
    label: str | None = None,
    client: str | Sequence[str] | None = None,
    *,
    frame_test: DataFrame | None = None,
    test: float = 0.2,
    seed: int = 0,
    features: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    impute: Impute | None = None,
    fit: Fit = "all",
    test_column: str | None = None,
    name: str = "own table",
) -> Dataset:
    """A data set of a pandas DataFrame: columns become features as those of a table's file do.

    ``label`` and ``client`` name columns, ``features`` and ``drop`` those to take and to leave out, ``impute`` is the
    rule for missing values, and ``fit`` says whose training rows fills and scales are fitted to. Rows to test on are
    those of ``frame_test``, those that the column ``test_column`` says are (test or train, 1 or 0, true or false), or
    the share ``test`` of each class, drawn by ``seed``.
    """
    if frame_test is not None and test_column is not None:
        raise InputError("frame_test and test_column both say what to test on; keep one")
    reader = build(
        Call(
            "table",
            (),
            (
                ("label", label),
                ("client", client if client is None or isinstance(client, str) else tuple(client)),
                ("test", test),
                ("seed", seed),
                ("features", features if isinstance(features, str) else tuple(features)),
                ("drop", drop if isinstance(drop, str) else tuple(drop)),
                ("impute", impute),
                ("fit", fit),
                ("test_column", test_column),
            ),
        ),
        {"table": Table},
        "kind of own data",
    )
    held = None
    if frame_test is not None:
        held = plain_frame(frame_test, "frame_test"), Place("frame_test", 0)
    return reader.dataset(plain_frame(frame, "the frame"), Place("the frame", 0), name, "a DataFrame", held)


TEST_WORDS = {"test": True, "true": True, "1": True, "1.0": True, "yes": True}
TRAIN_WORDS = {"train": False, "training": False, "false": False, "0": False, "0.0": False, "no": False}


def read_test_column(frame: DataFrame, column: str, others: Sequence[str], place: Place) -> Array:
    """Which rows are to test on, by the column that says so."""
    if column not in frame.columns:
        raise no_column("test", column, frame, place.where)
    if column in others:
        raise InputError(
            f"column {column!r} of {place.where} says what to test on, so it cannot be the label, a client column or a "
            "feature"
        )
    known = TEST_WORDS | TRAIN_WORDS
    said = [known.get(str(value).strip().lower()) for value in frame[column].tolist()]
    strange = np.array([one is None for one in said])
    if strange.any():
        value = frame[column].tolist()[int(np.flatnonzero(strange)[0])]
        raise InputError(
            f"column {column!r} of {place.where} has {value!r} in {place.first(strange)}; write test or train, 1 or 0, "
            "true or false"
        )
    return np.array(said, bool)


def read_table(path: Path, sep: str | None = None) -> DataFrame:
    """The rows of a .csv, .tsv or .parquet file, columns by their names."""
    import pandas

    try:
        if path.suffix.lower() in (".parquet", ".pq"):
            frame = pandas.read_parquet(path)
            # words are decoded when somebody looks, and damage shows then
            for at, name in enumerate(frame.columns):
                if not (str(name) and pandas.api.types.is_numeric_dtype(frame.iloc[:, at])):
                    frame.iloc[:, at].astype(object)
        else:
            frame = _read_text(path, _sign(sep) or ("\t" if path.suffix.lower() == ".tsv" else ","))
    except InputError:
        raise
    except pandas.errors.EmptyDataError:
        raise InputError(f"{path} is empty; its first line must name the columns") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not written in UTF-8; save it as CSV in UTF-8 and read that") from None
    except pandas.errors.ParserError as error:
        raise _unparsed(path, str(error)) from None
    except Exception as error:  # damaged Parquet metadata may raise anything
        why = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} cannot be read as a table ({why})") from None
    if not len(frame):
        raise InputError(f"{path} has no rows below the names of its columns")
    return plain_frame(frame, str(path))


def plain_frame(frame: DataFrame, where: str) -> DataFrame:
    """A frame whose columns have words for names, each its own, and whose rows are numbered."""
    import pandas

    if not isinstance(frame, pandas.DataFrame):
        raise InputError(f"{where} must be a pandas DataFrame, not a {type(frame).__name__}")
    if not len(frame):
        raise InputError(f"{where} has no rows")
    frame = frame.reset_index(drop=True)
    frame.columns = frame.columns.map(str)
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise InputError(f"{where} has two columns called {twice!r}; give every column its own name")
    coded = [c for c in frame.columns if isinstance(frame[c].dtype, pandas.CategoricalDtype)]
    return frame.astype(dict.fromkeys(coded, object)) if coded else frame


def place_of(path: Path) -> Place:
    """How complaints name the rows of a file: Parquet has no lines."""
    return Place(str(path), 0 if path.suffix.lower() in (".parquet", ".pq") else 2)


def _read_text(path: Path, sep: str) -> DataFrame:
    """Separated text, its values below the names that the header gives them.

    Left alone, pandas takes the first of one value too many for an index, and every column shifts.
    """
    import pandas

    how: dict[str, Any] = {"sep": sep, "skipinitialspace": True, "engine": "python" if len(sep) > 1 else "c"}
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Length of header", pandas.errors.ParserWarning)
        try:
            frame: DataFrame = pandas.read_csv(path, **how, index_col=False)
        except pandas.errors.ParserWarning:
            first = pandas.read_csv(path, **how, nrows=1)
            names = len(first.columns)
            if names == 1 and (problem := _other_separator(str(first.columns[0]), path)):
                raise problem from None
            raise InputError(
                f"line 2 of {path} has {names + first.index.nlevels} values, the header {names} names; "
                "name every column or take out what has no name"
            ) from None
    _refuse_twice(path, how)
    last = len(frame.columns) - 1
    if last and frame.columns[last] == f"Unnamed: {last}" and frame.iloc[:, last].isna().all():
        frame = frame.iloc[:, :last]  # a comma at the end of every line
    return frame


def _unparsed(path: Path, said: str) -> InputError:
    """What is wrong with a line that cannot be taken apart, by what pandas says of it."""
    if long := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", said):
        names, line, values = long.groups()
        return InputError(
            f"line {line} of {path} has {values} values, the header {names} names; quote a value that holds the "
            "separator, or take out what is too much"
        )
    if opened := re.search(r"EOF inside string starting at row (\d+)", said):
        return InputError(
            f"line {int(opened[1]) + 1} of {path} opens a quotation mark that nothing closes; close it or take it out"
        )
    return InputError(f"{path} cannot be read as a table ({' '.join(said.split())})")


def _refuse_twice(path: Path, how: Mapping[str, Any]) -> None:
    """A name that the header has twice; pandas would call the second one a.1, and nobody looks for that."""
    import pandas

    header = pandas.read_csv(path, **how, header=None, nrows=1, dtype=str, keep_default_na=False).iloc[0]
    names = header[header != ""]  # NA is a name, too
    if (twice := names.duplicated()).any():
        raise InputError(
            f"{path} has two columns called {names[twice].iloc[0]!r}; give every column its own name"
        )


def _sign(sep: str | None) -> str | None:
    """A separator as it is meant: on a command line, as in our own sentence, a tab is written \\t."""
    return "\t" if sep == r"\t" else sep


def separator_of(path: Path, trained: str | None) -> str | None:
    """What separates the columns of a file that a model is to judge: as in training, unless its first line has none."""
    sign = _sign(trained)
    if sign is None or path.suffix.lower() in (".parquet", ".pq"):
        return sign
    with open(path, encoding="utf-8", errors="replace") as lines:
        header = next((line for line in lines if line.strip()), "")
    return sign if re.search(sign if len(sign) > 1 else re.escape(sign), header) else None


def _other_separator(header: str, path: Path | str) -> InputError | None:
    """What to say of a header that is a single name, if the columns seem to be separated by another sign."""
    for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if sign in header:
            name = Path(path).name
            return InputError(
                f'{path} seems to be separated by {word}; write sep={sign!r}, as in "{name}(sep={sign!r})"'
            )
    return None


def _listed(frame: DataFrame) -> str:
    names = [str(c) for c in frame.columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _labels(values: Series, place: Place) -> Array:
    empty = np.asarray(values.isna())
    if empty.any():
        raise InputError(
            f"the label {values.name!r} of {place.where} is empty in {int(empty.sum())} of {len(empty)} rows, first in "
            f"{place.first(empty)}; fill it in, or write a rule for missing values such as impute=median, which leaves "
            "rows without a label out"
        )
    array = values.to_numpy()
    if array.dtype.kind == "O":
        odd = np.array([isinstance(v, (list, tuple, dict, np.ndarray)) for v in array])
        if odd.any():
            raise InputError(
                f"the label {values.name!r} of {place.where} must be whole numbers or words, "
                f"but {place.first(odd)} has {array[odd][0]}"
            )
    if array.dtype.kind == "f" and (broken := array != np.floor(array)).any():
        where = place.first(broken)
        raise InputError(
            f"the label {values.name!r} of {place.where} must be whole numbers or words, "
            f"but {where} has {array[broken][0]}; name classes by words, or choose another label"
        )
    if (large := too_large_label(array)).any():
        raise InputError(
            f"the label {values.name!r} of {place.where} is {array[large][0]} in {place.first(large)}, too large a "
            "number to tell classes apart by; write smaller numbers or words"
        )
    if array.dtype.kind in "iufb":
        return array
    words = array.astype(str)
    alike: dict[str, str] = {}
    for word in np.unique(words).tolist():
        other = alike.setdefault(word.strip().casefold(), word)
        if other != word:
            warn(
                f"the label {values.name!r} of {place.where} has {other!r} and {word!r}, which differ in capitals or "
                "spaces alone and are two classes; write them alike if they are one",
                stacklevel=2,
            )
            break
    return words


def _column(values: Series) -> Array:
    """A column to split clients by: numbers stay numbers, the rest are words, nothing is an empty word."""
    array = values.to_numpy()
    if array.dtype.kind in "iub":
        return array
    if array.dtype.kind == "f" and np.all(array == np.floor(array)):
        return array.astype(np.int64)
    return np.array(["" if missing else str(v) for v, missing in zip(array, values.isna(), strict=True)])


def _several(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _gaps(values: Series, columns: Columns) -> Array:
    """Which rows lack a value of this column."""
    if values.name in columns.numbers:
        return np.isnan(parse_numbers(values))
    return missing_words(words_of(values))


def _splitting(frame: DataFrame, columns: Columns) -> list[str]:
    """Columns of words that clients could be split by, whether they are features or not."""
    import pandas

    def is_word(column: str) -> bool:
        return not pandas.api.types.is_numeric_dtype(frame[column]) and "lists" not in columns.unused.get(
            column, ""
        )

    return [c for c in frame.columns if c in columns.words or (c in columns.unused and is_word(c))]


def _owners(
    clients: tuple[str, ...],
    frame: DataFrame,
    testing: Array,
    held: tuple[DataFrame, Place] | None,
    impute: Impute | None,
    columns: Columns,
) -> dict[str, Array]:
    """Whose the test rows are, where they tell."""
    if held is None:
        return {c: _column(frame[c])[testing] for c in clients}
    kept = np.ones(len(held[0]), bool)
    for column in columns.used if impute == "drop" else ():
        kept &= ~_gaps(held[0][column], columns)
    return {c: _column(held[0][c])[kept] for c in clients if c in held[0].columns}

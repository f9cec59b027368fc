"""Own data as a table: CSV or Parquet with a label column and, if there are any, client columns."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.data.dataset import Array, Dataset, too_large_label
from unskew.data.own import FLOAT32_IN_WORDS, from_arrays
from unskew.errors import InputError, unknown

if TYPE_CHECKING:
    from pandas import DataFrame, Series

USUAL_LABELS = ("label", "class", "y", "target")


@dataclass(frozen=True)
class Table:
    """A .csv, .tsv or .parquet file: numeric columns are the features, one column is the label.

    ``label`` names that column; without it the one called label, class, y or target. ``client`` names a
    column or several that clients are split by; columns of words can split them too. ``test`` is the share
    to hold out, or the path of a second table to test on.
    """

    name: ClassVar[str] = "table"

    label: str | None = None
    client: str | tuple[str, ...] | None = None
    test: float | str = 0.2
    seed: int = 0
    sep: str | None = None

    def read(self, path: Path) -> Dataset:
        """The table at ``path``."""
        frame = self._frame(path)
        label = self._label(frame, path)
        clients = (self.client,) if isinstance(self.client, str) else self.client or ()
        for column in clients:
            if column not in frame.columns:
                raise _no_column("client", column, frame, path)
            if column == label:
                raise InputError(f"column {column!r} of {path} cannot be both the label and a client column")
            if frame[column].isna().any():
                raise InputError(
                    f"column {column!r} of {path} is empty in {_first(frame[column].isna(), path)}"
                )
        rest = [c for c in frame.columns if c != label and c not in clients]
        numeric = [c for c in rest if _is_numeric(frame[c], c, path)]
        if not numeric:
            raise InputError(f"{path} has no column of numbers to learn from besides the label {label!r}")
        columns = {c: _column(frame[c]) for c in (*clients, *(c for c in rest if c not in numeric))}
        x_test = y_test = None
        if isinstance(self.test, str):
            held = Path(self.test).expanduser()
            if not held.exists() and not held.is_absolute():
                held = path.parent / held  # beside the table, as one would write it
            if not held.exists():
                raise InputError(f"there is no file {held} to test on")
            other = self._frame(held)
            lacking = next((c for c in (label, *numeric) if c not in other.columns), None)
            if lacking is not None:
                raise _no_column("feature" if lacking != label else "label", lacking, other, held)
            x_test, y_test = _numbers(other, numeric, held), _labels(other[label], held)
        return from_arrays(
            _numbers(frame, numeric, path),
            _labels(frame[label], path),
            x_test,
            y_test,
            columns=columns,
            test=0.2 if isinstance(self.test, str) else self.test,
            seed=self.seed,
            name=path.stem,
            kind="vector",
            source=path.name,
        )

    def _frame(self, path: Path) -> DataFrame:
        import pandas

        try:
            if path.suffix.lower() in (".parquet", ".pq"):
                frame = pandas.read_parquet(path)
            else:
                sep = self.sep or ("\t" if path.suffix.lower() == ".tsv" else ",")
                frame = _read_text(path, sep)
        except InputError:
            raise
        except pandas.errors.EmptyDataError:
            raise InputError(f"{path} is empty; its first line must name the columns") from None
        except Exception as error:  # damaged Parquet metadata may raise anything
            why = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"{path} cannot be read as a table ({why})") from None
        if not len(frame):
            raise InputError(f"{path} has no rows below the names of its columns")
        frame.columns = frame.columns.map(str)
        return frame

    def _label(self, frame: DataFrame, path: Path) -> str:
        if self.label is not None:
            if self.label not in frame.columns:
                raise _no_column("label", self.label, frame, path)
            return self.label
        usual = [c for c in frame.columns if c.strip().lower() in USUAL_LABELS]
        if len(usual) == 1:
            return str(usual[0])
        if usual:
            raise InputError(
                f"{path} has {len(usual)} columns that could be the label, {' and '.join(usual)}; "
                f"write label={usual[0]}"
            )
        if len(frame.columns) == 1:
            problem = _other_separator(frame.columns[0], path)
            if problem:
                raise problem
        raise InputError(
            f"{path} has no column called label, class, y or target; write label= and one of {_listed(frame)}"
        )


def _read_text(path: Path, sep: str) -> DataFrame:
    """Separated text, its values below the names that the header gives them.

    Left alone, pandas takes the first of one value too many for an index, and every column shifts.
    """
    import pandas

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Length of header", pandas.errors.ParserWarning)
        try:
            frame = pandas.read_csv(path, sep=sep, skipinitialspace=True, index_col=False)
        except pandas.errors.ParserWarning:
            first = pandas.read_csv(path, sep=sep, skipinitialspace=True, nrows=1)
            names = len(first.columns)
            if names == 1 and (problem := _other_separator(str(first.columns[0]), path)):
                raise problem from None
            raise InputError(
                f"line 2 of {path} has {names + first.index.nlevels} values, the header {names} names; "
                "name every column or take out what has no name"
            ) from None
    last = len(frame.columns) - 1
    if last and frame.columns[last] == f"Unnamed: {last}" and frame.iloc[:, last].isna().all():
        frame = frame.iloc[:, :last]  # a comma at the end of every line
    return frame


def _other_separator(header: str, path: Path) -> InputError | None:
    """What to say of a header that is a single name, if the columns seem to be separated by another sign."""
    for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if sign in header:
            return InputError(f"{path} seems to be separated by {word}; write sep={sign!r}")
    return None


def _no_column(what: str, column: str, frame: DataFrame, path: Path) -> InputError:
    return InputError(f"in {path} {unknown(f'{what} column', column, map(str, frame.columns))}")


def _listed(frame: DataFrame) -> str:
    names = [str(c) for c in frame.columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def _first(mask: Series | Array, path: Path) -> str:
    """The first row of a mask, as one would find it in the file."""
    row = int(np.flatnonzero(np.asarray(mask))[0])
    return f"row {row}" if path.suffix.lower() in (".parquet", ".pq") else f"line {row + 2}"


def _is_numeric(values: Series, column: str, path: Path) -> bool:
    """Numbers; a column of numbers with a few stray words is refused, not taken for a client column."""
    import pandas

    if pandas.api.types.is_bool_dtype(values) or pandas.api.types.is_numeric_dtype(values):
        return True
    if pandas.api.types.is_datetime64_any_dtype(values):
        return False
    parsed = pandas.to_numeric(values, errors="coerce")
    stray = parsed.isna() & values.notna()
    if parsed.notna().sum() > len(values) / 2 and stray.any():
        word = values[stray].iloc[0]
        raise InputError(
            f"column {column!r} of {path} holds numbers except for {int(stray.sum())} of {len(values)} rows, "
            f"first {word!r} in {_first(stray, path)}; correct them, or name it with client={column}"
        )
    return bool(parsed.notna().any() and not stray.any())


def _numbers(frame: DataFrame, columns: list[str], path: Path) -> Array:
    """The features as float32, every one finite."""
    import pandas

    features = np.empty((len(frame), len(columns)), np.float32)
    for k, column in enumerate(columns):
        with np.errstate(over="ignore"):
            exact = pandas.to_numeric(frame[column], errors="coerce").astype(float).to_numpy(np.float64)
            values = exact.astype(np.float32)
        bad = ~np.isfinite(exact)
        if bad.any():
            raise InputError(
                f"column {column!r} of {path} is empty, NaN or infinite in {int(bad.sum())} of {len(frame)} "
                f"rows, first in {_first(bad, path)}; fill them in or drop those rows"
            )
        if (large := ~np.isfinite(values)).any():
            raise InputError(
                f"column {column!r} of {path} has {exact[large][0]:g} in {_first(large, path)}, which is "
                f"{FLOAT32_IN_WORDS}; scale the column"
            )
        features[:, k] = values
    return features


def _labels(values: Series, path: Path) -> Array:
    empty = values.isna()
    if empty.any():
        raise InputError(
            f"the label {values.name!r} of {path} is empty in {_first(empty, path)}; fill it in or drop it"
        )
    array = values.to_numpy()
    if array.dtype.kind == "O":
        odd = np.array([isinstance(v, (list, tuple, dict, np.ndarray)) for v in array])
        if odd.any():
            raise InputError(
                f"the label {values.name!r} of {path} must be whole numbers or words, "
                f"but {_first(odd, path)} has {array[odd][0]}"
            )
    if array.dtype.kind == "f" and (broken := array != np.floor(array)).any():
        where = _first(broken, path)
        raise InputError(
            f"the label {values.name!r} of {path} must be whole numbers or words, "
            f"but {where} has {array[broken][0]}"
        )
    if (large := too_large_label(array)).any():
        raise InputError(
            f"the label {values.name!r} of {path} is {array[large][0]} in {_first(large, path)}, too large a "
            "number to tell classes apart by; write smaller numbers or words"
        )
    return array.astype(str) if array.dtype.kind not in "iufb" else array


def _column(values: Series) -> Array:
    """A column to split clients by: numbers stay numbers, the rest are words, nothing is an empty word."""
    array = values.to_numpy()
    if array.dtype.kind in "iub":
        return array
    if array.dtype.kind == "f" and np.all(array == np.floor(array)):
        return array.astype(np.int64)
    return np.array(["" if missing else str(v) for v, missing in zip(array, values.isna(), strict=True)])

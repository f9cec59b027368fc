"""From raw inputs to the samples that a model was trained on: tables, frames, pictures, arrays and files of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import TABLES, Place, client_word
from unskew.data.columns import Columns
from unskew.data.dataset import CLIENT, Dataset, Kind
from unskew.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Intake:
    """What a model takes, kept with it: the kind, shape and type of a sample, the classes, a table's columns.

    ``high`` is about the largest number that it was trained on, which tells bytes from shares of 1; ``resize`` scales
    every picture, as those of the training were.
    """

    kind: Kind
    shape: tuple[int, ...]
    dtype: str
    labels: tuple[str, ...]
    high: float
    table: Columns | None = None
    resize: bool = False

    @classmethod
    def of(cls, dataset: Dataset) -> Intake:
        high = float(np.max(dataset.mean + 4 * dataset.std))
        return cls(
            dataset.kind,
            dataset.shape,
            str(dataset.x.dtype),
            dataset.labels,
            high,
            dataset.table,
            dataset.resized,
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {
            "kind": self.kind,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "labels": list(self.labels),
            "high": self.high,
            "table": None if self.table is None else self.table.as_dict(),
            "resize": self.resize,
        }

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Intake:
        """The way back from ``as_dict``."""
        table = None if told["table"] is None else Columns.of(told["table"])
        shape, labels = tuple(told["shape"]), tuple(told["labels"])
        return cls(told["kind"], shape, told["dtype"], labels, told["high"], table, told["resize"])

    @property
    def takes(self) -> str:
        """What a sample is, in words."""
        if self.table is not None:
            return f"rows with the columns {', '.join(self.table.used)}"
        if self.kind == "vector":
            return f"rows of {self.shape[0]} numbers"
        return f"samples of shape {'x'.join(map(str, self.shape))}"

    def inputs(self, raw: Any, resize: bool = False) -> Inputs:
        """Anything that holds samples: a path, a frame, pictures' paths, or numbers."""
        if isinstance(raw, (str, os.PathLike)):
            return self._file(Path(raw).expanduser(), resize)
        pandas = sys.modules.get("pandas")  # who has a frame has loaded it
        if pandas is not None and isinstance(raw, pandas.Series):
            raw = raw.to_frame().T.infer_objects()
        if pandas is not None and isinstance(raw, pandas.DataFrame):
            from unskew.data.tables import plain_frame

            return self._frame(plain_frame(raw, "the frame"), Place("the frame", 0))
        if isinstance(raw, (list, tuple)) and raw and all(isinstance(one, (str, os.PathLike)) for one in raw):
            files = [Path(one).expanduser() for one in raw]
            return Inputs(self._pictures(files, resize), {"file": [str(one) for one in raw]})
        return self._numbers(raw, "x")

    def _file(self, path: Path, resize: bool) -> Inputs:
        from unskew.data.images import ENDINGS
        from unskew.data.table_folder import tables_in

        suffix = path.suffix.lower()
        if not path.exists():
            raise InputError(f"there is no file or folder {path}")
        if path.is_dir():
            tables = tables_in(path) if self.table is not None else []
            return self._tables(path, tables) if tables else self._folder(path, resize)
        if suffix in TABLES:
            from unskew.data.tables import place_of, read_table, separator_of

            sep = separator_of(path, self.table.sep if self.table else None)
            return self._frame(read_table(path, sep), place_of(path))
        if suffix in ENDINGS:
            return Inputs(self._pictures([path], resize), {"file": [path.name]})
        if suffix in (".npz", ".npy"):
            return self._arrays(path)
        raise InputError(
            f"cannot read {path}: inputs are a .csv, .tsv, .parquet, .npz or .npy file, a picture or a folder of them"
        )

    def _folder(self, path: Path, resize: bool) -> Inputs:
        """All pictures below a folder; one in a folder that is called like a class is known to be of it."""
        self._check_pictures()
        from unskew.data.images import pictures_below

        files = pictures_below(path)
        if not files:
            raise InputError(f"{path} holds no pictures")
        names = [file.relative_to(path) for file in files]
        classes = [
            next((part for part in reversed(name.parts[:-1]) if part in self.labels), "") for name in names
        ]
        truth = np.array(classes) if all(classes) else None
        return Inputs(self._pictures(files, resize), {"file": [n.as_posix() for n in names]}, truth=truth)

    def _tables(self, path: Path, files: Sequence[Path]) -> Inputs:
        """The tables of a folder, a client's each, one below the other."""
        from unskew.data.table_folder import read_tables
        from unskew.data.tables import read_table, separator_of

        assert self.table is not None
        owner = self.table.clients[0] if self.table.clients else CLIENT
        sep = separator_of(files[0], self.table.sep)
        there = owner in read_table(files[0], sep).columns
        return self._frame(*read_tables(path, sep, None if there else owner))

    def _check_pictures(self) -> None:
        if self.kind != "image" or self.shape[0] not in (1, 3):
            raise InputError(f"this model takes {self.takes}, not pictures")
        if self.dtype != "uint8" and self.high < 2:
            raise InputError(
                "this model was trained on numbers about 0 to 1 and pictures hold 0 to 255; read them as you did for "
                "training, and give the array"
            )

    def _pictures(self, files: Sequence[Path], resize: bool) -> Array:
        from unskew.data.images import pictures

        self._check_pictures()
        channels, height, width = self.shape
        return pictures(files, (width, height), grey=channels == 1, resize=resize or self.resize)

    def _arrays(self, path: Path) -> Inputs:
        from unskew.data.files import damaged, read_npz

        if path.suffix.lower() == ".npy":
            try:
                return self._numbers(np.load(path, mmap_mode="r", allow_pickle=False), str(path))
            except (ValueError, EOFError, OSError) as error:
                if isinstance(error, InputError):
                    raise
                raise damaged(path, "it is not a whole .npy file of numbers") from None
        arrays = read_npz(path)
        name = next((n for n in ("x", "x_test", *(arrays if len(arrays) == 1 else ())) if n in arrays), None)
        if name is None:
            raise InputError(f"{path} must hold the array x; it holds {', '.join(arrays) or 'nothing'}")
        found = self._numbers(arrays[name], f"{name} of {path}")
        y = arrays.get({"x": "y", "x_test": "y_test"}.get(name, ""))
        if y is not None and y.shape == (len(found),):
            found.truth = self._names(y)
        return found

    def _names(self, labels: Array) -> Array:
        """Labels as the names of the classes, where they are that, or their numbers."""
        words = np.array([client_word(v) for v in labels.tolist()])
        if labels.dtype.kind in "iub" and not set(words.tolist()) <= set(self.labels):
            places = labels.astype(np.int64)
            if len(places) and places.min() >= 0 and places.max() < len(self.labels):
                return np.array(self.labels)[places]
        return words

    def _frame(self, frame: DataFrame, place: Place) -> Inputs:
        if self.table is None:
            return self._unnamed(frame, place)
        x, usable = self.table.rows(frame, place, trained=True)
        truth = None
        if self.table.label in frame.columns and not frame[self.table.label].isna().any():
            given = frame[self.table.label].to_numpy()
            given = given.astype(np.int64) if given.dtype.kind == "b" else given  # as it was read in training
            words = np.array([client_word(v) for v in given.tolist()])
            # words that no label has are names of other classes
            truth = words if set(words.tolist()) & set(self.labels) else None
        return Inputs(x, {str(c): frame[c].tolist() for c in frame.columns}, usable, truth)

    def _unnamed(self, frame: DataFrame, place: Place) -> Inputs:
        """Rows for a model that was trained on arrays, whose columns had no names: as many, in their order."""
        if self.kind != "vector" or len(frame.columns) != self.shape[0]:
            raise InputError(
                f"{place.where} has {len(frame.columns)} columns, but this model was trained on arrays and takes "
                f"{self.takes}"
            )
        from unskew.data.cells import numbers_of

        values = np.column_stack([numbers_of(frame[c], place) for c in frame.columns])
        found = self._numbers(values, place.where)
        found.rows = {str(c): frame[c].tolist() for c in frame.columns}
        return found

    def _numbers(self, raw: Any, what: str) -> Inputs:
        """Numbers in any layout that can only mean these samples."""
        from unskew.data.own import plain_array

        if self.table is not None:
            return self._rows_of_numbers(plain_array(raw, what), what)
        array = plain_array(raw, what)
        if array.dtype.kind not in "iufb":
            raise InputError(f"{what} must hold numbers, not {array.dtype}; this model takes {self.takes}")
        if array.ndim and not len(array):
            raise InputError(f"{what} has no samples; give at least one")
        x = self._laid_out(array)
        if x is None:
            raise InputError(
                f"{what} has the shape {_shape(array.shape)}, but this model takes {self.takes}: give "
                f"{_shape(('n', *self.shape))}"
            )
        if x.dtype.kind == "f":
            finite = np.isfinite(x).reshape(len(x), -1).all(axis=1)
            if not finite.all():
                raise InputError(
                    f"{what} has NaN or infinite values in {int((~finite).sum())} of {len(x)} samples, first in sample "
                    f"{int(np.flatnonzero(~finite)[0])}; fill them in or leave those samples out"
                )
        self._check_range(x, what)
        return Inputs(x, {"sample": list(range(len(x)))})

    def _laid_out(self, array: Array) -> Array | None:
        shape = self.shape
        for batch in (array, array[None]):
            inner = batch.shape[1:]
            if inner == shape:
                return batch
            if shape[0] == 1 and len(shape) > 1 and inner == shape[1:]:
                return batch[:, None]
            if self.kind == "image" and len(inner) == 3 and (inner[-1], *inner[:-1]) == shape:
                return np.moveaxis(batch, -1, 1)
            if self.kind == "vector" and len(inner) > 1 and int(np.prod(inner)) == shape[0]:
                return batch.reshape(len(batch), -1)
        return None

    def _check_range(self, x: Array, what: str) -> None:
        """Refuse shares of 1 for a model of bytes, and the other way around: it would answer, and wrongly."""
        if self.kind != "image" or not x.size:
            return
        if self.dtype == "uint8" and x.dtype.kind == "f" and x.min() >= 0 and 0 < x.max() <= 1:
            raise InputError(
                f"this model was trained on pictures of bytes, 0 to 255, and {what} holds numbers from 0 to 1; "
                "multiply them by 255"
            )
        if self.dtype != "uint8" and self.high < 2 and x.dtype.kind in "iu" and x.max() > 1:
            raise InputError(
                f"this model was trained on numbers about 0 to 1, and {what} holds numbers up to {x.max()}; divide "
                "them by 255, or whatever you did for training"
            )

    def _rows_of_numbers(self, array: Array, what: str) -> Inputs:
        """Numbers for a model that was trained on a table: its columns, in the order of ``table.used``."""
        import pandas

        assert self.table is not None
        if self.table.words or self.table.fit == "client":
            raise InputError(
                f"this model takes {self.takes}: {what} has no names of columns, so give a pandas DataFrame or a file"
            )
        rows = array[None] if array.ndim == 1 else array
        if rows.ndim != 2 or rows.shape[1] != len(self.table.numbers):
            raise InputError(
                f"{what} has the shape {_shape(array.shape)}, but this model takes {self.takes}: give "
                f"{_shape(('n', len(self.table.numbers)))}, or a pandas DataFrame"
            )
        frame = pandas.DataFrame(rows, columns=list(self.table.numbers))
        found = self._frame(frame, Place(what, 0))
        found.rows = {"sample": list(range(len(rows)))}
        return found


@dataclass
class Inputs:
    """Samples to judge, and what names them where the answers are written.

    ``usable`` are the rows that have a sample at all; ``truth`` holds the classes where the input tells them.
    """

    x: Array
    rows: dict[str, list[Any]]
    usable: Array = None  # type: ignore[assignment]  # all of them, unless told
    truth: Array | None = None

    def __post_init__(self) -> None:
        self.usable = np.ones(len(self.x), bool) if self.usable is None else self.usable

    def __len__(self) -> int:
        return len(self.x)


def _shape(shape: Sequence[Any]) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"

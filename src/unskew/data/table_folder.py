"""Own data as a folder of tables: one for each client."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from unskew.data.cells import TABLES, Place, listed
from unskew.data.dataset import CLIENT, Dataset
from unskew.data.tables import Table, place_of, read_table
from unskew.errors import InputError

if TYPE_CHECKING:
    from pandas import DataFrame

_PARTS = ("train", "training", "test", "testing", "val", "valid", "validation")


@dataclass(frozen=True)
class TableFolder(Table):
    """A folder with a .csv, .tsv or .parquet file for each client, all with the same columns; see ``Table``.

    The column ``client`` says whose a row is, by the name of its file, unless ``client`` names another column.
    """

    name: ClassVar[str] = "tables"

    def read(self, path: Path) -> Dataset:
        """All tables of the folder, one below the other."""
        drop = (self.drop,) if isinstance(self.drop, str) else self.drop
        frame, place = read_tables(path, self.sep, None if self.client else CLIENT, drop)
        reader = replace(self, client=self.client or CLIENT)
        return reader.dataset(frame, place, path.resolve().name, path.name, self.second(path))


def tables_in(folder: str | os.PathLike[str]) -> list[Path]:
    """The tables that lie in a folder, in the order of their names; none where its sub-folders hold images."""
    try:
        inside = [p for p in sorted(Path(folder).iterdir()) if not p.name.startswith(".")]
    except OSError:
        return []  # who reads it says why
    tables = [p for p in inside if p.suffix.lower() in TABLES and p.is_file()]
    if tables:
        from unskew.data.images import pictures_below

        if any(pictures_below(p) for p in inside if p.is_dir()):
            return []
    return tables


@dataclass(frozen=True)
class Places(Place):
    """Where the rows of several files come from."""

    files: tuple[Place, ...] = ()
    ends: tuple[int, ...] = ()

    def row(self, k: int) -> str:
        at = int(np.searchsorted(self.ends, k, side="right"))
        return (
            f"{self.files[at].row(k - (self.ends[at - 1] if at else 0))} of {Path(self.files[at].where).name}"
        )


def read_tables(
    folder: Path, sep: str | None, owner: str | None, drop: Sequence[str] = ()
) -> tuple[DataFrame, Places]:
    """The rows of a folder's tables, one below the other; the column ``owner`` says by its name which each is from."""
    import pandas

    files = tables_in(folder)
    if parts := [file.name for file in files if file.stem.lower() in _PARTS]:
        raise InputError(
            f"{folder} holds {listed(parts)}, and in a folder of tables each is a client's; write the one to train on "
            f'with the other as its test set, such as "{folder}/train.csv(test=test.csv)"'
        )
    if len(files) == 1:
        raise InputError(f"{folder} holds a single table; write {files[0]}")
    frames = [read_table(file, sep) for file in files]
    if len(names := {file.stem for file in files}) < len(files):
        twice = next(name for name in names if sum(file.stem == name for file in files) > 1)
        raise InputError(f"{folder} holds two tables called {twice}; give every client's a name of its own")
    for file, frame in zip(files, frames, strict=True):
        if owner in frame.columns:
            raise InputError(
                f"{file} has a column {owner!r}, which is to say whose table a row is from; call it something else, or "
                f"write client={owner} if it says whose a row is"
            )
        for one, other, lacks in ((frames[0], frame, file), (frame, frames[0], files[0])):
            if lacking := [c for c in one.columns if c not in other.columns and c not in drop]:
                has = files[0] if lacks is file else file
                raise InputError(
                    f"{lacks} has no column {lacking[0]!r}, and {has.name} has; give all tables the same columns, or "
                    f"write drop={lacking[0]}"
                )
    if owner is not None:
        frames = [frame.assign(**{owner: file.stem}) for file, frame in zip(files, frames, strict=True)]
    ends = tuple(accumulate(map(len, frames)))
    return pandas.concat(frames, ignore_index=True), Places(str(folder), 0, tuple(map(place_of, files)), ends)

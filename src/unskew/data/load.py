"""Data by name or by path: the one door to every data set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.data.cells import TABLES
from unskew.data.dataset import CLIENT, Dataset
from unskew.data.sources import SOURCES
from unskew.errors import InputError
from unskew.expression import Call, build, parse_one, path_and_options
from unskew.renamed import accepts_old_names

if TYPE_CHECKING:
    from unskew.data.images import ImageFolder
    from unskew.data.own import Npz
    from unskew.data.tables import Table

_held: ContextVar[dict[str, Dataset] | None] = ContextVar("_held", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Within, a data set is read once, however often it is loaded with the same words: many checks on the same data."""
    before = _held.set({})
    try:
        yield
    finally:
        _held.reset(before)


@accepts_old_names(root="data_folder")
def load(
    name: str | os.PathLike[str], data_folder: str | os.PathLike[str] | None = None, **options: Any
) -> Dataset:
    """A data set by its name and options, or your own data by its path.

    ``name`` is an expression such as ``"mnist"`` or ``"uci_har(channels=total_acc)"``, or a path to an .npz,
    .csv, .tsv or .parquet file, a folder of such tables, one for each client, or a folder of images by class. A path
    may carry options too: ``"readings.csv(label=activity, client=subject)"``, ``"users(folders=client/class)"``.
    ``options`` are further options by keyword. ``data_folder`` is where published files lie; without it the variable
    UNSKEW_DATA_FOLDER, and without that the user's cache.
    """
    if not isinstance(name, (str, os.PathLike)):
        raise InputError(
            f"load takes a data set's name or a path, not a {type(name).__name__}; of a DataFrame write "
            "unskew.from_frame(frame, label=...), of arrays from_arrays(x, y)"
        )
    held = _held.get()
    if held is None:
        return _load(name, data_folder, options)
    words = repr((os.fspath(name), data_folder, sorted(options.items())))
    if words not in held:
        held[words] = _load(name, data_folder, options)
    return held[words]


def _load(
    name: str | os.PathLike[str], data_folder: str | os.PathLike[str] | None, options: dict[str, Any]
) -> Dataset:
    path, inner = (name, "") if isinstance(name, os.PathLike) else path_and_options(name)
    if not is_path(path):
        call = parse_one(str(name), "data set")
        call = Call(call.name, call.args, (*call.kwargs, *options.items()))
        return build(call, SOURCES, "data set").read(data_folder)
    try:
        given = parse_one(f"own{inner}", "data set")
    except InputError as problem:
        raise InputError(str(problem).replace(f"own{inner}", f"{path}{inner}")) from None
    return _read_own(Path(path).expanduser(), given.args, (*given.kwargs, *options.items()))


def _read_own(path: Path, args: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> Dataset:
    """Own data by what its path is; each kind's options are its fields."""
    kind = kind_of_own(path)
    return build(Call(kind.name, args, options), {kind.name: kind}, "kind of own data").read(path)


def kind_of_own(path: Path) -> type[ImageFolder | Npz | Table]:
    """What reads the data at a path; a path that is not there, or holds none, is refused."""
    from unskew.data.images import ImageFolder
    from unskew.data.own import Npz
    from unskew.data.table_folder import TableFolder, tables_in
    from unskew.data.tables import Table

    if not os.path.exists(path):
        raise InputError(f"there is no file or folder {path}")
    suffix = path.suffix.lower()
    if path.is_dir():
        return TableFolder if tables_in(path) else ImageFolder
    if suffix in (".npz", *TABLES) and not path.is_file():
        raise InputError(f"{path} is no file but a pipe or a device; write what it gives into a file first")
    if suffix == ".npz":
        return Npz
    if suffix in TABLES:
        return Table
    raise InputError(
        f"cannot read {path}: own data is an .npz, .csv, .tsv or .parquet file or a folder of images by class"
    )


def has_columns(path: str | os.PathLike[str]) -> bool:
    """Whether own data is a table, or a folder of them."""
    from unskew.data.table_folder import tables_in

    text = os.fspath(path).strip()
    return text.lower().endswith(TABLES) or (is_path(text) and bool(tables_in(os.path.expanduser(text))))


def own_clients(name: str) -> str | None:
    """The column that says whose a sample is, where the data lies client by client: in folders, or in a table each."""
    path, inner = path_and_options(name)
    if not (is_path(path) and os.path.isdir(path := os.path.expanduser(path))):
        return None
    from unskew.data.table_folder import tables_in

    try:
        given = dict(parse_one(f"own{inner}", "data set").kwargs)
    except InputError:
        return None  # who reads it says what is wrong
    if given.get("folders", "class") != "class" or ("client" not in given and tables_in(path)):
        return CLIENT
    return None


def is_path(text: str | os.PathLike[str]) -> bool:
    if isinstance(text, os.PathLike):
        return True
    if "/" in text or os.sep in text or Path(text).suffix.lower() in (".npz", *TABLES):
        return True
    return text not in SOURCES and bool(text) and os.path.exists(os.path.expanduser(text))

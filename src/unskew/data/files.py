"""The data folder, and reading from it so that a damaged file is named and never half used.

A place is a folder, an archive or a file below the data folder; ``contents`` reads all three alike, and never
unpacks anything to the disk, so there is no half-unpacked state to repair.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

from unskew.arrays import Array
from unskew.errors import InputError
from unskew.renamed import warn_of

FOLDER_VARIABLE, OLD_VARIABLE = "UNSKEW_DATA_FOLDER", "UNSKEW_DATA"
# what the standard library raises for archives that are cut short, overwritten or not archives at all
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, NotImplementedError)


def data_folder(chosen: str | os.PathLike[str] | None = None) -> Path:
    """Where published files lie: where it is said, else in the variable UNSKEW_DATA_FOLDER, else the user's cache."""
    chosen = chosen or os.environ.get(FOLDER_VARIABLE)
    if not chosen and (chosen := os.environ.get(OLD_VARIABLE)):
        warn_of(f"the variable {OLD_VARIABLE}", FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("unskew", appauthor=False)) / "data"


def damaged(path: Path | str, why: object) -> InputError:
    """The one sentence for a file that cannot be used."""
    return InputError(f"{path} is damaged: {why}; put a whole copy in its place or remove it")


def one_of(folder: Path, names: str) -> Path | None:
    """The first of ``a|b|c`` that lies in the folder."""
    return next((folder / n for n in names.split("|") if (folder / n).is_file()), None)


def read_file(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is a .gz."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except _BROKEN as error:
        raise damaged(path, _reason(error)) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None


def contents(
    place: Path, wanted: Callable[[str], bool], within: Iterable[str] = ("",)
) -> Iterator[tuple[str, bytes]]:
    """Name and bytes of each wanted file of a folder, a .zip (also one within a .zip) or a .tar[.gz].

    Of a folder only the sub-folders ``within`` are listed: it may be somebody's whole data folder.
    """
    if place.is_dir():
        for folder in within:
            for path in sorted((place / folder).glob("*")):
                name = path.relative_to(place).as_posix()
                if wanted(name) and path.is_file():
                    yield name, read_file(path)
        return
    try:
        with place.open("rb") as stream:
            if place.suffix == ".zip":
                yield from _zip_contents(stream, wanted)
            else:
                with tarfile.open(fileobj=stream, mode="r:*") as archive:
                    for member in archive:
                        if member.isfile() and wanted(member.name):
                            unpacked = archive.extractfile(member)
                            assert unpacked is not None  # isfile() says so
                            yield member.name, unpacked.read()
    except _BROKEN as error:
        raise damaged(place, _reason(error)) from None
    except OSError as error:
        raise InputError(f"cannot read {place}: {error.strerror or error}") from None


def _zip_contents(stream: IO[bytes], wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(stream) as archive:
        for name in sorted(archive.namelist()):
            if wanted(name):
                yield name, archive.read(name)
            elif name.endswith(".zip") and not name.startswith("__MACOSX"):
                yield from _zip_contents(io.BytesIO(archive.read(name)), wanted)


def read_npz(path: Path, *needed: str) -> dict[str, Array]:
    """The arrays of an .npz file, none of them pickled, ``needed`` ones all there."""
    try:
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(
                    f"{path} holds a single array, as np.save writes it; write several by their names with "
                    "np.savez"
                )
            arrays = {}
            for key in archive.files:
                try:
                    arrays[key] = archive[key]
                except ValueError as error:
                    if "allow_pickle" not in str(error):
                        raise
                    raise InputError(
                        f"array {key!r} of {path} holds Python objects, which are not read for safety; "
                        "save it as numbers or strings"
                    ) from None
                if not isinstance(arrays[key], np.ndarray):
                    raise damaged(path, f"{key!r} in it is not an array")
    except InputError:
        raise
    except _BROKEN as error:
        raise damaged(path, _reason(error)) from None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}") from None
    except MemoryError:
        raise InputError(f"{path} says it holds more than fits into memory") from None
    except Exception as error:  # a header of damaged text fails in numpy and in Python's own tokenizer
        if "encrypted" in str(error):
            raise InputError(f"{path} is locked with a password; save it without one") from None
        raise damaged(path, "it is not a whole .npz archive") from None
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise InputError(f"{path} lacks the array {missing[0]!r}; it holds {', '.join(arrays) or 'nothing'}")
    return arrays


def digest(data: bytes, checksum: str) -> str:
    """The checksum of these bytes, in the notation ``md5:…`` or ``sha256:…`` of the expected one."""
    method = checksum.partition(":")[0]
    return f"{method}:{hashlib.new(method, data, usedforsecurity=False).hexdigest()}"


def check(data: bytes, checksum: str | None, where: Path | str) -> None:
    """Refuse bytes that are not those of the published file."""
    if checksum is not None and (got := digest(data, checksum)) != checksum:
        raise damaged(where, f"its content has {_short(got)} where the published file has {_short(checksum)}")


def _short(checksum: str) -> str:
    method, _, value = checksum.partition(":")
    return f"{method.upper()} {value[:12]}…"


def _reason(error: BaseException) -> str:
    text = str(error).strip().rstrip(".")
    if not text:
        return "it ends too early"
    return text if text[:2].isupper() else text[:1].lower() + text[1:]

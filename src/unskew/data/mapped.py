"""Arrays that stay on disk: what lies in which file, so that another process can map it too."""

from __future__ import annotations

import mmap
import shutil
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import Array


@dataclass(frozen=True)
class Mapped:
    """A stretch of a file as an array: small to send, mapped where it is needed."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def open(self) -> Array:
        return np.memmap(self.file, np.dtype(self.dtype), "r", self.offset, self.shape)


def is_mapped(array: Any) -> Mapped | None:
    """Where an array lies on disk; None for one in memory, or one that is no single stretch of its file."""
    if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.size:
        return None
    root: Any = array
    while isinstance(root, np.ndarray) and not isinstance(root.base, mmap.mmap):
        root = root.base
    if not isinstance(root, np.memmap) or root.filename is None:
        return None
    offset = int(root.offset + array.ctypes.data - root.ctypes.data)
    return Mapped(str(root.filename), array.dtype.str, array.shape, offset)


class Writer:
    """An array written to a file row by row, then mapped; the file goes when nobody holds the array any more."""

    def __init__(self, folder: Path | None, name: str) -> None:
        self.temporary = folder is None
        place = Path(tempfile.mkdtemp(prefix="unskew-")) if folder is None else folder
        place.mkdir(parents=True, exist_ok=True)
        self.path = place / f"{name}.bin"
        self.file = self.path.open("wb")

    def write(self, rows: Array) -> None:
        self.file.write(np.ascontiguousarray(rows).data)

    def array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        self.file.close()
        found = np.memmap(self.path, dtype, "r", 0, shape)
        if self.temporary:
            weakref.finalize(found, shutil.rmtree, self.path.parent, ignore_errors=True)
        return found

"""The IDX format, and data sets distributed as its four files: images and labels, to train and to test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset
from unskew.data.files import check, damaged, digest, one_of, read_file
from unskew.data.sources.source import Form, Source
from unskew.errors import InputError

FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)
# as published, unpacked, and with the dot that some tools write for the second hyphen
SPELLINGS = tuple(
    "|".join(n + ending for n in (f, f.replace("-idx", ".idx")) for ending in (".gz", "")) for f in FILES
)


def parse_idx(data: bytes, where: Path | str) -> Array:
    """The bytes of an IDX file as an array: after two zeros, the type 8 and the rank come sizes and data."""
    rank = data[3] if len(data) > 3 else 0
    if data[:3] != b"\0\0\x08" or len(data) < 4 + 4 * rank:
        raise damaged(where, "it does not begin like an IDX file of bytes")
    shape = tuple(int(n) for n in np.frombuffer(data, ">u4", rank, 4))
    start = 4 + 4 * rank
    if len(data) - start != math.prod(shape):
        raise damaged(
            where,
            f"its header promises {math.prod(shape):,} bytes of data but {len(data) - start:,} follow",
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


@dataclass(frozen=True)
class IdxImages(Source):
    """Grey images in four IDX files; ``checksums`` are of the unpacked files, in the order of ``FILES``."""

    labels: ClassVar[tuple[str, ...]]
    checksums: ClassVar[tuple[str | None, ...]]

    def find(self, folder: Path) -> tuple[Form, Path] | None:
        """Files that lie in the data folder itself could be another set's: the test labels tell."""
        found = super().find(folder)
        return None if found and found[1] == folder and self._is_another(folder) else found

    def _is_another(self, folder: Path) -> bool:
        labels, mine = one_of(folder, SPELLINGS[3]), self.checksums[3]
        if labels is None or mine is None:
            return False
        try:
            others = {c.checksums[3] for c in IdxImages.__subclasses__()} - {mine}
            return digest(read_file(labels), mine) in others
        except InputError:
            return False  # damaged: reading it will say so

    @staticmethod
    def read_folder(source: IdxImages, folder: Path) -> Dataset:
        """Read the four files, each either packed or plain."""
        arrays = []
        for file, names, checksum in zip(FILES, SPELLINGS, source.checksums, strict=True):
            path = one_of(folder, names)
            assert path is not None  # recognises() has seen it
            data = read_file(path)
            array = parse_idx(data, path)
            check(data, checksum, path)
            wanted = (source.counts[file.startswith("t10k")], *(source.shape[1:] if "images" in file else ()))
            if array.shape != wanted:
                raise damaged(path, f"it has the shape {array.shape}, not {wanted} as {source.name} has")
            arrays.append(array)
        x, y, x_test, y_test = arrays
        files = f"the four IDX files in {folder.name}"
        return source.dataset(x[:, None], y, x_test[:, None], y_test, source.labels, files)

"""scikit-learn's digits, the embedded default."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset, hold_out
from unskew.data.sources.source import Form, Source
from unskew.errors import InputError


@dataclass(frozen=True)
class Digits(Source):
    """Handwritten digits 0 to 9: 8x8 grey images of 17 levels, embedded (they come with scikit-learn).

    They have no official test set: ``test`` of each class is held out, drawn by ``seed``.

    Citation: E. Alpaydin, C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, 1998.

    Licence: CC BY 4.0 (UCI repository).
    """

    name: ClassVar = "digits"
    kind: ClassVar = "image"
    counts: ClassVar = (1_438, 359)
    shape: ClassVar = (1, 8, 8)
    classes: ClassVar = 10
    brightest: ClassVar = 16

    test: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.test < 1:
            raise InputError(f"test of digits must lie between 0 and 1, not {self.test}")

    def read(self, chosen: str | os.PathLike[str] | None = None) -> Dataset:
        """Nothing is looked for: the data comes with scikit-learn."""
        x, y = embedded()
        test = hold_out(y, self.test, self.seed)
        labels = tuple("0123456789")
        return self.dataset(x[~test], y[~test], x[test], y[test], labels, "embedded in scikit-learn")

    def find(self, folder: Path) -> tuple[Form, Path] | None:
        """Always there, in no folder."""
        return None


@cache
def embedded() -> tuple[Array, Array]:
    """Images and labels, from scikit-learn's own file: loading scikit-learn as well takes a second more."""
    found = importlib.util.find_spec("sklearn")
    file = (
        Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz" if found and found.origin else None
    )
    if file is not None and file.is_file():
        table = np.loadtxt(file, np.uint8, delimiter=",")
        return table[:, :-1].reshape(-1, 1, 8, 8), table[:, -1].astype(np.int64)
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64)

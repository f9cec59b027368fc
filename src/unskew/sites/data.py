"""A site's own data: a file or folder that stays where it is, read as the run's coordinator says samples look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import TABLES, client_word
from unskew.data.dataset import Dataset
from unskew.data.federation import Federation, census
from unskew.data.intake import Intake
from unskew.errors import InputError


class DataUnfit(InputError):
    """Samples that do not fit a run. The sentence may quote them, so it stays at the site; ``told`` is for others."""

    def __init__(self, sentence: object, told: str = "do not fit this run; the log of the site says why"):
        super().__init__(sentence)
        self.told = told


@dataclass(frozen=True)
class SiteData:
    """Where a site's samples lie, which column is their label, and which says whose they are (one client without)."""

    path: Path
    label: str | None = None
    client: str | None = None

    def labels(self) -> tuple[Array, Array]:
        """The class of every sample, in words, and whose it is: without reading pictures or features."""
        path = self.path.expanduser()
        if not path.exists():
            raise InputError(f"there is no file or folder {path}")
        if path.is_dir():
            from unskew.data.images import pictures_below

            names = [file.relative_to(path).parts for file in pictures_below(path)]
            if not names or any(len(parts) < 2 for parts in names):
                raise InputError(f"{path} must hold pictures in one folder a class")
            return np.array([parts[-2] for parts in names]), self._nobody(len(names))
        if path.suffix.lower() in TABLES:
            from unskew.data.tables import read_table

            frame = read_table(path, None)
            if self.label is None:
                raise InputError(f"say which column of {path} is the label: --label COLUMN")
            values = self._column(frame, self.label)
            return _words(values), self._owners(
                {str(c): frame[c].tolist() for c in frame.columns}, len(frame)
            )
        arrays = _arrays(path)
        if "y" not in arrays:
            raise InputError(
                f"{path} must hold the arrays x and y; it holds {', '.join(arrays) or 'nothing'}"
            )
        rows = {name: values.tolist() for name, values in arrays.items() if values.ndim == 1}
        return _words(arrays["y"].tolist()), self._owners(rows, len(arrays["y"]))

    def clients(self) -> tuple[tuple[str, ...], Array]:
        """The clients that live here, by name, and how many samples each has."""
        _, owners = self.labels()
        names, sizes = np.unique(owners, return_counts=True)
        return tuple(str(name) for name in names), sizes.astype(np.int64)

    def counts(self) -> tuple[tuple[str, ...], tuple[str, ...], Array]:
        """(clients, classes, how many samples of each class each client has): to be given with consent alone."""
        with _words_stay_here():
            words, owners = self.labels()
        names, who = np.unique(owners, return_inverse=True)
        classes, what = np.unique(words, return_inverse=True)
        order = np.argsort(who, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(who, minlength=len(names)))])
        table = census(what, order, offsets, len(classes)).astype(np.int64)
        return tuple(map(str, names)), tuple(map(str, classes)), table

    def deal(self, intake: Intake, about: Dataset, first: int, everyone: int) -> Federation:
        """The site's samples as the run takes them: its clients are ``first``, ``first + 1``... of so many."""
        if intake.table is not None and self.label is not None and intake.table.label != self.label:
            raise DataUnfit(
                f"the run's label is the column {intake.table.label!r}, and this site was started with --label "
                f"{self.label}",
                f"have another label than the run's, {intake.table.label!r}; ask what the site gives as --label",
            )
        with _words_stay_here():
            return self._dealt(intake, about, first, everyone)

    def _dealt(self, intake: Intake, about: Dataset, first: int, everyone: int) -> Federation:
        found = intake.inputs(self.path)
        truth = found.truth
        if truth is None:
            raise InputError(f"{self.path} does not tell the class of each sample, as this run needs")
        x, words = np.asarray(found.x), np.asarray(truth)
        rows = found.rows
        if self.client is not None and self.client not in rows:
            rows = {name: values.tolist() for name, values in _arrays(self.path).items() if values.ndim == 1}
        owners = self._owners(rows, len(x))
        x, words, owners = x[found.usable], words[found.usable], owners[found.usable]
        place = {name: k for k, name in enumerate(intake.labels)}
        strange = sorted(set(words.tolist()) - set(place))
        if strange:
            raise DataUnfit(
                f"{self.path} has samples of the class {strange[0]!r}, which the run does not know; its classes are "
                f"{', '.join(intake.labels)}",
                f"have classes that the run does not know; its own are {', '.join(intake.labels)}",
            )
        y = np.array([place[word] for word in words.tolist()], np.int64)
        names, who = np.unique(owners, return_inverse=True)
        if first < 0 or first + len(names) > everyone:
            raise DataUnfit(
                "the run counts other clients here than this site has",
                "belong to more clients than the run counts here",
            )
        data = Dataset(
            about.name, np.ascontiguousarray(x.astype(about.x.dtype, copy=False)), y,
            about.x[:0], np.zeros(0, np.int64), about.labels, about.kind, mean=about.mean, std=about.std,
        )  # fmt: skip
        sizes = np.zeros(everyone, np.int64)
        sizes[first : first + len(names)] = np.bincount(who, minlength=len(names))
        return Federation(data, np.argsort(who, kind="stable"), np.concatenate([[0], np.cumsum(sizes)]))

    def _owners(self, rows: dict[str, list[Any]], count: int) -> Array:
        if self.client is None:
            return self._nobody(count)
        if self.client not in rows:
            raise InputError(f"{self.path} has no column {self.client!r} that says whose a sample is")
        return _words(rows[self.client])

    def _nobody(self, count: int) -> Array:
        return np.full(count, "")

    def _column(self, frame: Any, name: str) -> list[Any]:
        if name not in frame.columns:
            raise InputError(
                f"{self.path} has no column {name!r}; it has {', '.join(map(str, frame.columns))}"
            )
        values: list[Any] = frame[name].tolist()
        return values


@contextmanager
def _words_stay_here() -> Iterator[None]:
    """What is wrong with samples is said where they are: it quotes rows, cells and columns."""
    try:
        yield
    except DataUnfit:
        raise
    except (InputError, ValueError, TypeError, KeyError, IndexError) as problem:
        raise DataUnfit(problem) from None


def _arrays(path: Path) -> dict[str, Array]:
    from unskew.data.files import read_npz

    if path.suffix.lower() != ".npz":
        raise InputError(
            f"cannot read {path}: a site's data is an .npz, .csv, .tsv or .parquet file or a folder of images by class"
        )
    return dict(read_npz(path))


def _words(values: list[Any]) -> Array:
    return np.array([client_word(int(v) if isinstance(v, bool) else v) for v in values])

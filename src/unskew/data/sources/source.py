"""What a data set is to unskew: its facts, the ways its files may lie on the disk, and where to get them.

To add one, write a frozen dataclass in a file of its own (its fields are its options), give it the facts
below and a reader for each form, and add a line to ``__init__.py``. The listing, the download and every
message follow from that.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from unskew import expression
from unskew.arrays import Array
from unskew.data.dataset import Dataset, Kind, channel_moments
from unskew.data.download import DownloadError, Remote, fetch
from unskew.data.files import data_folder, one_of
from unskew.errors import InputError


@dataclass(frozen=True)
class Form:
    """One way the files of a data set may lie in the data folder.

    ``places`` are tried in order below it. A folder counts if it holds all of ``needs`` (each ``a|b|c``:
    any of these). ``read`` is given the data set, with its options, and the place found. A form that differs
    from the published one says so in ``note`` and gives its own counts and shape.
    """

    what: str
    places: tuple[str, ...]
    read: Callable[[Any, Path], Dataset]
    needs: tuple[str, ...] = ()
    note: str = ""
    counts: tuple[int, int] | None = None
    shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Source:
    """A data set by name. The class holds the published facts; an instance holds the options."""

    name: ClassVar[str]
    kind: ClassVar[Kind]
    counts: ClassVar[tuple[int, int]]
    shape: ClassVar[tuple[int, ...]]
    classes: ClassVar[int]
    brightest: ClassVar[int] = 255
    columns: ClassVar[tuple[str, ...]] = ()
    forms: ClassVar[tuple[Form, ...]] = ()
    home: ClassVar[str] = ""
    remotes: ClassVar[tuple[Remote, ...]] = ()

    def read(self, chosen: str | os.PathLike[str] | None = None) -> Dataset:
        """The data, from the first form found in the data folder; downloaded if there is none."""
        folder = data_folder(chosen)
        found = self.find(folder)
        if found is None:
            self.download(folder)
            found = self.find(folder)
        if found is None:
            raise InputError(
                f"{self.name} is not in {folder} although it was downloaded; {self.wanted(folder)}"
            )
        form, place = found
        return form.read(self, place)

    def find(self, folder: Path) -> tuple[Form, Path] | None:
        """The form that is used and where it lies, or None; nothing is loaded."""
        for form in self.forms:
            for place in form.places:
                path = folder / place
                if path.is_file() if not form.needs else all(one_of(path, names) for names in form.needs):
                    return form, path
        return None

    def download(self, folder: Path) -> None:
        """Fetch the files that are not there; where that fails, say in one sentence what to put where."""
        home = folder / self.home
        try:
            for remote in self.remotes:
                if not (home / remote.file).exists():
                    fetch(remote, home)
        except DownloadError as problem:
            raise InputError(
                f"{self.name} is not in {folder} and could not be downloaded ({problem}); "
                f"{self.wanted(folder)}"
            ) from None

    def wanted(self, folder: Path) -> str:
        """Which files to put where."""
        home = folder / self.home
        missing = [r.file for r in self.remotes if not (home / r.file).exists()]
        names = missing or [r.file for r in self.remotes]
        listed = names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
        return f"put {listed} into {home}"

    def dataset(
        self,
        x: Array,
        y: Array,
        x_test: Array,
        y_test: Array,
        labels: tuple[str, ...],
        source: str,
        columns: Mapping[str, Array] | None = None,
    ) -> Dataset:
        """A Dataset of these arrays, named by the expression that loads it again."""
        mean, std = channel_moments(x)
        return Dataset(
            name=expression.render(self),
            x=x,
            y=y,
            x_test=x_test,
            y_test=y_test,
            labels=labels,
            kind=self.kind,
            columns=columns or {},
            mean=mean,
            std=std,
            source=source,
            brightest=self.brightest,
        )


def about(source: type[Source]) -> dict[str, str]:
    """The docstring in its parts: ``description``, ``citation``, ``licence`` and any further ``notes``."""
    parts: dict[str, str] = {"description": "", "citation": "", "licence": "", "notes": ""}
    for paragraph in (inspect.getdoc(source) or "").split("\n\n"):
        text = " ".join(paragraph.split()).replace("``", "")
        for key, mark in (("citation", "Citation: "), ("licence", "Licence: ")):
            if text.startswith(mark):
                parts[key] = text.removeprefix(mark)
                break
        else:
            key = "notes" if parts["description"] else "description"
            parts[key] = f"{parts[key]} {text}".strip()
    return parts

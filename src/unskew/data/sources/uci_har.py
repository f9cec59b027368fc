"""UCI-HAR."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset
from unskew.data.download import Remote
from unskew.data.files import contents, damaged, read_npz
from unskew.data.sources.source import Form, Source

SENSORS = ("body_acc", "body_gyro", "total_acc")
_WINDOW = 128


def _read_published(source: UciHar, place: Path) -> Dataset:
    """The text files of the ``UCI HAR Dataset`` folder or its zip: one window a line, one file per channel."""
    signals = [f"{sensor}_{axis}" for sensor in source.sensors for axis in "xyz"]
    files: dict[str, str] = {}
    for part in ("train", "test"):
        files |= {f"{part}/{kind}_{part}.txt": f"{kind}_{part}" for kind in ("y", "subject")}
        files |= {f"{part}/Inertial Signals/{s}_{part}.txt": f"{s}_{part}" for s in signals}

    def file_of(name: str) -> str | None:
        return next((f for f in files if name == f or name.endswith("/" + f)), None)

    folders = ("train", "test", "train/Inertial Signals", "test/Inertial Signals")
    arrays: dict[str, Array] = {}
    for name, data in contents(place, lambda n: "__MACOSX" not in n and file_of(n) is not None, folders):
        key = files[str(file_of(name))]
        whole = key.startswith(("y_", "subject_"))
        arrays[key] = _table(data, 1 if whole else _WINDOW, f"{place}/{name}")
        wanted = source.counts[key.endswith("_test")]
        if len(arrays[key]) != wanted:
            raise damaged(f"{place}/{name}", f"it has {len(arrays[key]):,} lines, not {wanted:,}")
    missing = [file for file, key in files.items() if key not in arrays]
    if missing:
        raise damaged(place, f"{missing[0]} is not in it")

    def windows(part: str) -> Array:
        return np.stack([arrays[f"{s}_{part}"] for s in signals], axis=-1)[:, None]

    return source.dataset(
        windows("train"),
        arrays["y_train"][:, 0].astype(np.int64) - 1,
        windows("test"),
        arrays["y_test"][:, 0].astype(np.int64) - 1,
        source.labels,
        f"the published text files in {place.name}",
        columns={"subject": arrays["subject_train"][:, 0].astype(np.int64)},
    )


def _table(data: bytes, columns: int, where: str) -> Array:
    try:
        table = np.loadtxt(io.StringIO(data.decode("ascii")), dtype=np.float32, ndmin=2)
    except (ValueError, UnicodeDecodeError) as error:
        raise damaged(where, f"it is not a table of numbers ({str(error).split(';')[0]})") from None
    if table.shape[1] != columns or not np.all(np.isfinite(table)):
        raise damaged(where, f"it does not have {columns} finite numbers a line")
    return table


def _read_packed(source: UciHar, path: Path) -> Dataset:
    """Windows rebuilt from the raw recordings, as int16 times a scale for each channel."""
    keys = ("scale", "channels", "x_train", "y_train", "subject_train", "x_test", "y_test")
    arrays = read_npz(path, *keys)
    names = [str(name) for name in arrays["channels"]]
    signals = [f"{sensor}_{axis}" for sensor in source.sensors for axis in "xyz"]
    try:
        chosen = [names.index(signal) for signal in signals]
    except ValueError:
        raise damaged(path, f"its channels {', '.join(names)} lack some of {', '.join(signals)}") from None

    def windows(part: str) -> Array:
        x = arrays[f"x_{part}"]
        if x.ndim != 3 or x.shape[1:] != (_WINDOW, len(names)):
            raise damaged(path, f"x_{part} has the shape {x.shape}, not (n, {_WINDOW}, {len(names)})")
        return (x[..., chosen] * arrays["scale"][chosen]).astype(np.float32)[:, None]

    return source.dataset(
        windows("train"),
        arrays["y_train"],
        windows("test"),
        arrays["y_test"],
        source.labels,
        f"{path.name} (rebuilt from the raw recordings, not the published windows)",
        columns={"subject": arrays["subject_train"].astype(np.int64)},
    )


@dataclass(frozen=True)
class UciHar(Source):
    """Six activities of 30 people, from a phone at the waist: windows of 2.56 s at 50 Hz.

    Nine channels in g and rad/s: body_acc x y z, body_gyro x y z, total_acc x y z; ``channels`` takes three
    of them. The test set is the published one, of nine people who are not in the training set.

    Citation: D. Anguita, A. Ghio, L. Oneto, X. Parra, J. L. Reyes-Ortiz, A Public Domain Dataset for Human
    Activity Recognition Using Smartphones, ESANN 2013.

    Licence: CC BY 4.0 (UCI repository).
    """

    name: ClassVar = "uci_har"
    kind: ClassVar = "series"
    counts: ClassVar = (7_352, 2_947)
    shape: ClassVar = (1, _WINDOW, 9)
    classes: ClassVar = 6
    columns: ClassVar = ("subject",)
    labels: ClassVar[tuple[str, ...]] = (
        "WALKING",
        "WALKING_UPSTAIRS",
        "WALKING_DOWNSTAIRS",
        "SITTING",
        "STANDING",
        "LAYING",
    )
    home: ClassVar = "."
    forms: ClassVar = (
        Form(
            "the published folder",
            (
                "UCI HAR Dataset",
                "uci_har/UCI HAR Dataset",
                "uci-har/UCI HAR Dataset",
                "UCI_HAR_Dataset",
                "UCI-HAR Dataset",
                "uci_har",
                "uci-har",
                ".",
            ),
            _read_published,
            needs=("train/y_train.txt", "test/y_test.txt", "train/Inertial Signals/total_acc_x_train.txt"),
        ),
        Form(
            "the zip as published",
            tuple(
                f"{folder}{file}.zip"
                for folder in ("", "uci_har/", "uci-har/")
                for file in ("UCI HAR Dataset", "human+activity+recognition+using+smartphones")
            ),
            _read_published,
        ),
        Form(
            "packed windows, rebuilt",
            ("uci-har-windows.npz", "uci_har/uci-har-windows.npz", "uci-har/uci-har-windows.npz"),
            _read_packed,
            note="rebuilt from the raw recordings; name results with it UCI-HAR (rebuilt)",
            counts=(7_415, 2_996),
        ),
    )
    remotes: ClassVar = (
        Remote(
            "UCI HAR Dataset.zip",
            (
                "https://archive.ics.uci.edu/static/public/240/human+activity+recognition+using+smartphones.zip",
                "https://archive.ics.uci.edu/ml/machine-learning-databases/00240/UCI%20HAR%20Dataset.zip",
            ),
            None,
            61,
        ),
    )

    channels: Literal["all", "body_acc", "body_gyro", "total_acc"] = "all"

    @property
    def sensors(self) -> tuple[str, ...]:
        """The sensors whose three axes are read."""
        return SENSORS if self.channels == "all" else (self.channels,)

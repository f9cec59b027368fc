"""CIFAR-100."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import numpy as np

from unskew.data.dataset import Dataset
from unskew.data.download import Remote
from unskew.data.files import check, contents, damaged
from unskew.data.sources.cifar import names_of, read_pickle, read_records, unpickle
from unskew.data.sources.source import Form, Source

_PYTHON = ("train", "test", "meta")
_BINARY = ("train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt")


def _read_batches(source: Cifar100, place: Path) -> Dataset:
    """Train, test and the names of a folder or an archive, as pickles or as binary records."""
    parts: dict[str, Any] = {}
    for name, data in contents(place, lambda n: PurePosixPath(n).name in _PYTHON + _BINARY):
        where, file = f"{place}/{name}", PurePosixPath(name).name
        check(data, source.checksums.get(file), where)
        if file == "meta":
            meta = unpickle(data, where)
            parts |= {k: names_of(meta.get(f"{k}_label_names", ())) for k in ("fine", "coarse")}
        elif file.endswith(".txt"):
            parts[file.split("_")[0]] = names_of(data)
        else:
            if file.endswith(".bin"):
                images, (coarse, fine) = read_records(data, 2, where)
            else:
                images, (coarse, fine) = read_pickle(data, ("coarse_labels", "fine_labels"), where)
            wanted = source.counts[file.startswith("test")]
            if len(images) != wanted:
                raise damaged(where, f"it holds {len(images):,} images, not {wanted:,} as CIFAR-100 has")
            parts[file.removesuffix(".bin")] = images, coarse, fine
    missing = [part for part in ("train", "test", "fine", "coarse") if not parts.get(part)]
    if missing:
        what = missing[0] if missing[0] in ("train", "test") else f"the list of {missing[0]} label names"
        raise damaged(place, f"{what} is not in it")
    (x, coarse, y), (x_test, _, y_test) = parts["train"], parts["test"]
    columns = {"superclass": np.asarray(parts["coarse"])[coarse]}
    return source.dataset(
        x, y, x_test, y_test, parts["fine"], f"train and test in {place.name}", columns=columns
    )


@dataclass(frozen=True)
class Cifar100(Source):
    """Photographs in 100 classes of 20 superclasses: 32x32 colour images.

    The superclass of each image is a column, so that a client can be given related classes.

    Citation: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical report,
    University of Toronto, 2009.

    Licence: none stated; the authors ask for the citation.
    """

    name: ClassVar = "cifar100"
    kind: ClassVar = "image"
    counts: ClassVar = (50_000, 10_000)
    shape: ClassVar = (3, 32, 32)
    classes: ClassVar = 100
    columns: ClassVar = ("superclass",)
    checksums: ClassVar[dict[str, str]] = {
        "train": "md5:16019d7e3df5f24257cddd939b257f8d",
        "test": "md5:f0ef6b0ae62326f3e7ffdfab6717acfc",
    }
    home: ClassVar = "."
    forms: ClassVar = (
        Form(
            "the Python batches",
            (
                "cifar-100-python",
                "cifar100/cifar-100-python",
                "cifar-100/cifar-100-python",
                "cifar100",
                "cifar-100",
                ".",
            ),
            _read_batches,
            needs=_PYTHON,
        ),
        Form(
            "the binary batches",
            (
                "cifar-100-binary",
                "cifar100/cifar-100-binary",
                "cifar-100/cifar-100-binary",
                "cifar100",
                "cifar-100",
                ".",
            ),
            _read_batches,
            needs=_BINARY,
        ),
        Form(
            "the archive as published",
            tuple(
                f"{folder}cifar-100-{form}.tar.gz"
                for form in ("python", "binary")
                for folder in ("", "cifar100/", "cifar-100/")
            ),
            _read_batches,
        ),
    )
    remotes: ClassVar = (
        Remote(
            "cifar-100-python.tar.gz",
            (
                "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
                "https://cave.cs.toronto.edu/kriz/cifar-100-python.tar.gz",
            ),
            "md5:eb9058c3a382ffc7106e4002c42a8d85",
            169,
        ),
    )

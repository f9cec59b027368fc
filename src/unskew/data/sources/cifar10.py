"""CIFAR-10."""

from __future__ import annotations

import io
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np

from unskew.arrays import Array
from unskew.data.dataset import Dataset
from unskew.data.download import Remote
from unskew.data.files import check, contents, damaged, read_npz
from unskew.data.sources.cifar import read_pickle, read_records
from unskew.data.sources.source import Form, Source
from unskew.errors import InputError

_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")
_PYTHON_MD5 = (
    "c99cafc152244af753f735de768cd75f",
    "d4bba439e000b95fd0a9bffe97cbabec",
    "54ebc095f3ab1f0389bbae665268c751",
    "634d18415352ddfa80567beed471001a",
    "482c414d41f54cd18b22e5b47cb7c3cb",
    "40351d587109b95175f43aff81a1287e",
)
_BINARY_MD5 = (
    "5dd7e06a14cb22eb9f671a540d1b7c25",
    "5ea93a67294ea407fff1d09f752e9692",
    "942cd6a4bcdd0dd3c604fbe906cb4421",
    "ae636b3ba5c66a11e91e8cb52e771fcb",
    "53f37980c15c3d472c316c40844f3f0d",
    "803d5f7f4d78ea53de84dbe85f74fb6d",
)


def _read_batches(source: Cifar10, place: Path) -> Dataset:
    """The six batches of a folder or an archive, as pickles or as binary records."""
    found: dict[str, tuple[Array, Array]] = {}
    for name, data in contents(place, lambda n: PurePosixPath(n).name.removesuffix(".bin") in _BATCHES):
        where = f"{place}/{name}"
        batch = PurePosixPath(name).name
        check(data, source.checksums.get(batch), where)
        if batch.endswith(".bin"):
            images, (labels,) = read_records(data, 1, where)
        else:
            images, (labels,) = read_pickle(data, ("labels",), where)
        wanted = source.counts[1] if batch.startswith("test") else source.counts[0] // 5
        if len(images) != wanted:
            raise damaged(where, f"it holds {len(images):,} images, not {wanted:,} as CIFAR-10's batches do")
        found[batch.removesuffix(".bin")] = images, labels
    missing = [b for b in _BATCHES if b not in found]
    if missing:
        raise damaged(place, f"{missing[0]} is not in it")
    x, y = (np.concatenate([found[b][k] for b in _BATCHES[:5]]) for k in (0, 1))
    x_test, y_test = found["test_batch"]
    return source.dataset(x, y, x_test, y_test, source.labels, f"the six batches in {place.name}")


def _read_packed(source: Cifar10, path: Path) -> Dataset:
    """WebP strips 32 wide, images stacked downwards; a subset in the same form is taken as it is."""
    from PIL import Image, UnidentifiedImageError

    keys = ("x_train_webp", "x_train_offsets", "y_train", "x_test_webp", "x_test_offsets", "y_test")
    arrays = read_npz(path, *keys)

    def images(part: str) -> Array:
        buffer, offsets = arrays[f"x_{part}_webp"], arrays[f"x_{part}_offsets"]
        strips = []
        for start, end in pairwise(offsets):
            try:
                with Image.open(io.BytesIO(buffer[start:end].tobytes())) as strip:
                    strips.append(np.asarray(strip.convert("RGB")).reshape(-1, 32, 32, 3))
            except (UnidentifiedImageError, OSError, ValueError):
                raise damaged(path, f"image strip {len(strips)} of x_{part}_webp cannot be read") from None
        x = np.ascontiguousarray(np.concatenate(strips).transpose(0, 3, 1, 2))
        if len(x) != len(arrays[f"y_{part}"]):
            raise damaged(path, f"it holds {len(x):,} {part} images but {len(arrays[f'y_{part}']):,} labels")
        return x

    try:
        x, x_test = images("train"), images("test")
    except KeyError as error:  # Pillow built without WebP
        raise InputError(f"Pillow cannot read WebP here, which {path} needs ({error})") from None
    part = (
        "" if (len(x), len(x_test)) == source.counts else f", a subset of {len(x):,} + {len(x_test):,} images"
    )
    return source.dataset(
        x, arrays["y_train"], x_test, arrays["y_test"], source.labels, f"{path.name} (packed{part})"
    )


@dataclass(frozen=True)
class Cifar10(Source):
    """Photographs in ten classes: 32x32 colour images.

    Citation: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, technical report,
    University of Toronto, 2009.

    Licence: none stated; the authors ask for the citation.
    """

    name: ClassVar = "cifar10"
    kind: ClassVar = "image"
    counts: ClassVar = (50_000, 10_000)
    shape: ClassVar = (3, 32, 32)
    classes: ClassVar = 10
    labels: ClassVar[tuple[str, ...]] = (
        "airplane",
        "automobile",
        "bird",
        "cat",
        "deer",
        "dog",
        "frog",
        "horse",
        "ship",
        "truck",
    )
    checksums: ClassVar[dict[str, str]] = {
        **{b: f"md5:{m}" for b, m in zip(_BATCHES, _PYTHON_MD5, strict=True)},
        **{f"{b}.bin": f"md5:{m}" for b, m in zip(_BATCHES, _BINARY_MD5, strict=True)},
    }
    home: ClassVar = "."
    forms: ClassVar = (
        Form(
            "the six Python batches",
            (
                "cifar-10-batches-py",
                "cifar10/cifar-10-batches-py",
                "cifar-10/cifar-10-batches-py",
                "cifar10",
                "cifar-10",
                ".",
            ),
            _read_batches,
            needs=_BATCHES,
        ),
        Form(
            "the six binary batches",
            (
                "cifar-10-batches-bin",
                "cifar10/cifar-10-batches-bin",
                "cifar-10/cifar-10-batches-bin",
                "cifar10",
                "cifar-10",
                ".",
            ),
            _read_batches,
            needs=tuple(f"{b}.bin" for b in _BATCHES),
        ),
        Form(
            "the archive as published",
            tuple(
                f"{folder}cifar-10-{form}.tar.gz"
                for form in ("python", "binary")
                for folder in ("", "cifar10/", "cifar-10/")
            ),
            _read_batches,
        ),
        Form("packed as lossless WebP", ("cifar10.npz", "cifar10/cifar10.npz"), _read_packed),
    )
    remotes: ClassVar = (
        Remote(
            "cifar-10-python.tar.gz",
            (
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                "https://cave.cs.toronto.edu/kriz/cifar-10-python.tar.gz",
            ),
            "md5:c58f30108f718f92721af3b95e74349a",
            170,
        ),
    )

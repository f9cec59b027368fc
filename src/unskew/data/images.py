"""Own data as a folder of images: one sub-folder a class, or a client with one for each class."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import listed
from unskew.data.dataset import CLIENT, Dataset
from unskew.data.own import class_codes, from_arrays, split_held_out
from unskew.errors import InputError
from unskew.machine.memory import refuse_larger
from unskew.notices import warn

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_TRAIN = ("train", "training")
_TEST = ("test", "testing", "val", "valid", "validation")
_GREY = ("1", "L", "LA")
LARGEST_SIDE = 4096
_COLOUR = ("RGB", "RGBA", "P", "CMYK", "YCbCr")

Folders = Literal["class", "client/class", "class/client"]
"""What the folders are, from the outermost: classes, clients with their classes, or classes with their clients."""


class Image(NamedTuple):
    """An image's file, its class, and the client that it belongs to, where folders tell."""

    file: Path
    label: str
    client: str = ""


@dataclass(frozen=True)
class ImageFolder:
    """A folder with a sub-folder of images for each class, or with such folders below train/ and test/.

    ``folders`` says what the folders are: class, or client/class where each client has a folder with one for each of
    its classes in it, or class/client the other way round. Then clients are the values of the column ``client``.
    Images stay grey if all are. They must be of one size, or ``size=32`` or ``size=32x24`` (width x height)
    scales them.
    """

    name: ClassVar[str] = "images"

    size: int | str | tuple[int, ...] | None = None
    test: float = 0.2
    seed: int = 0
    folders: Folders = "class"

    def read(self, path: Path) -> Dataset:
        """All images below the folder, grey or colour alike, in the order of their names."""
        train = _sub_folder(path, _TRAIN)
        folders = [folder.name for folder in _sub_folders(path)]
        if folders and all(name.lower() in _TEST for name in folders):
            raise InputError(
                f"{path} has {' and '.join(f'{name}/' for name in folders)} but no train/; put the training "
                "images by class into train/ beside it, or give the folder that holds the classes itself"
            )
        test = _sub_folder(path, _TEST) if train else None
        images = _images(train or path, self.folders)
        tests = [] if test is None else _images(test, self.folders)
        labels = sorted({image.label for image in (*images, *tests)})
        name = path.resolve().name
        pictures = self._pictures([image.file for image in (*images, *tests)])
        split = len(images)
        made = from_arrays(
            pictures[:split],
            [image.label for image in images],
            pictures[split:] if test else None,
            [image.label for image in tests] if test else None,
            labels=labels,
            columns=_owners(images),
            test=self.test,
            seed=self.seed,
            name=name,
            kind="image",
            source=f"images in {name}",
        )
        made = replace(made, resized=self.size is not None)
        if self.folders == "class":
            return made
        tested = tests or self._held_out(images, made)
        return replace(made, columns_test=_owners(tested))

    def _held_out(self, images: list[Image], made: Dataset) -> list[Image]:
        """The images that were held out to test on, in their order."""
        y = class_codes({"y": np.array([image.label for image in images])}, made.labels)[1]["y"]
        held = split_held_out(y, self.test, self.seed, made.name)
        return [image for image, out in zip(images, held, strict=True) if out]

    def _pictures(self, files: list[Path]) -> Array:
        """[n, C, H, W] in bytes."""
        size = _checked_size(self.size)
        raw: list[Any] = []
        grey = True
        for file in files:
            picture, is_grey = _opened(file)
            grey = grey and is_grey
            if size is not None:
                picture = _scaled(picture, size)
            elif raw and picture.size != raw[0].size:
                here, first = (f"{w}x{h}" for w, h in (picture.size, raw[0].size))
                raise InputError(
                    f"{file} is {here} pixels but {files[0]} is {first}; give size={first} to scale them all"
                )
            if not raw:
                width, height = picture.size
                refuse_larger(
                    2 * len(files) * width * height * (1 if grey else 3),
                    f"{len(files):,} images of {width}x{height} pixels",
                    f"write a smaller size, such as size={min(32, width)}",
                )
            raw.append(picture)
        return _stacked(raw, grey)


def pictures(files: Sequence[Path], size: tuple[int, int], grey: bool, resize: bool) -> Array:
    """[n, C, H, W] in bytes, of width x height ``size``; others are scaled where they may be, else refused."""
    raw = []
    for file in files:
        picture = _opened(file)[0]
        if picture.size != size and not resize:
            here, wanted = (f"{w}x{h}" for w, h in (picture.size, size))
            raise InputError(
                f"{file} is {here} pixels but this model takes {wanted}; scale it, or write --resize (resize=True)"
            )
        raw.append(_scaled(picture, size))
    return _stacked([picture.convert("L") for picture in raw] if grey else raw, grey)


def pictures_below(folder: Path) -> list[Path]:
    """Every picture below a folder, in the order of their names."""
    return sorted(file for file in _below(folder) if _is_image(file))


def _opened(file: Path) -> tuple[Any, bool]:
    """A picture, grey or RGB, and whether it is grey."""
    from PIL import Image as Pillow

    try:
        with Pillow.open(file) as image:
            if image.mode not in _GREY + _COLOUR:
                raise InputError(f"{file} is an image of mode {image.mode}; save it with 8 bits a channel")
            grey = image.mode in _GREY
            return image.convert("L" if grey else "RGB"), grey
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"there is no file {file}") from None
    except Exception as error:  # each format's reader fails in its own way on a damaged header
        raise InputError(f"{file} cannot be read as an image ({error}); replace it or take it out") from None


def _scaled(picture: Any, size: tuple[int, int]) -> Any:
    from PIL.Image import Resampling

    return picture if picture.size == size else picture.resize(size, Resampling.BILINEAR)


def _stacked(raw: Sequence[Any], grey: bool) -> Array:
    if grey:
        return np.stack([np.asarray(picture) for picture in raw])[:, None]
    colour = np.stack([np.asarray(picture.convert("RGB")) for picture in raw])
    return np.ascontiguousarray(colour.transpose(0, 3, 1, 2))


def _sub_folder(path: Path, names: tuple[str, ...]) -> Path | None:
    """The folder of one of these names, in capitals or not."""
    there = {folder.name.lower(): folder for folder in reversed(_sub_folders(path))}
    return next((there[name] for name in names if name in there), None)


def _images(folder: Path, folders: Folders) -> list[Image]:
    """The images below a folder, in the order of their names; other files are passed over."""
    if folders == "class":
        return _of_classes(folder)
    found = []
    for outer in _sub_folders(folder):
        for inner in _sub_folders(outer):
            label, client = (inner, outer) if folders == "client/class" else (outer, inner)
            found += [
                Image(file, label.name, client.name) for file in sorted(filter(_is_image, _below(inner)))
            ]
        if loose := next((file for file in sorted(outer.iterdir()) if _is_image(file)), None):
            raise InputError(
                f"{loose} lies in a folder of its {folders.partition('/')[0]} alone; with folders={folders} put it "
                f"into {folder.name}/{folders.upper()}/"
            )
    if not found:
        raise InputError(
            f"{folder} holds no images as {folders}; put them into {folder.name}/{folders.upper()}/, or leave "
            "folders= out where its sub-folders are the classes"
        )
    return found


def _of_classes(folder: Path) -> list[Image]:
    """The images of each class folder, wherever they lie in it."""
    found = []
    for group in _sub_folders(folder):
        images = sorted(file for file in _below(group) if _is_image(file))
        if not images:
            raise InputError(f"{group} holds no images; remove it or put images of the class into it")
        found += [Image(file, group.name) for file in images]
    if not found:
        raise InputError(f"{folder} holds no images by class; make a sub-folder of images for each class")
    _warn_of_clients(folder, [image.file.relative_to(folder).parts for image in found])
    return found


def _warn_of_clients(folder: Path, parts: list[tuple[str, ...]]) -> None:
    """A folder for each client with one for each class in it: the clients would be the classes, without a word."""
    inner: dict[str, set[str]] = {}
    for group, *below in parts:
        if len(below) < 2:
            return  # this one holds images itself
        inner.setdefault(group, set()).add(below[0])
    held = Counter(name for names in inner.values() for name in names)
    shared = sorted(name for name, count in held.items() if count > 1)
    if len(shared) > 1:
        every = all(held[name] == len(inner) for name in shared)
        warn(
            f"the classes of {folder} are its sub-folders, {listed(list(inner))}, and "
            f"{'each of them holds' if every else 'several of them hold'} the folders {listed(shared)}; if those are "
            f'the classes and {next(iter(inner))} is a client, write "{folder}(folders=client/class)", and '
            "folders=class/client if it is the other way round",
            stacklevel=3,
        )


def _owners(images: Sequence[Image]) -> dict[str, Array]:
    """Whose each image is, as a column, where folders tell."""
    return {CLIENT: np.array([image.client for image in images])} if any(i.client for i in images) else {}


def _sub_folders(path: Path) -> list[Path]:
    try:
        return [p for p in sorted(path.iterdir()) if p.is_dir() and not p.name.startswith(".")]
    except OSError as error:
        raise _unreadable(error) from None


def _below(folder: Path) -> Iterator[Path]:
    """All files below a folder; one that may not be opened is not one without images."""

    def refuse(error: OSError) -> None:
        raise _unreadable(error)

    for place, _, names in os.walk(folder, onerror=refuse):
        yield from (Path(place, name) for name in names)


def _unreadable(error: OSError) -> InputError:
    return InputError(
        f"the folder {error.filename} cannot be read ({error.strerror}); change its permissions or remove it"
    )


def _is_image(file: Path) -> bool:
    return file.suffix.lower() in ENDINGS and not file.name.startswith(".") and file.is_file()


def _checked_size(size: int | str | tuple[int, ...] | None) -> tuple[int, int] | None:
    if size is None:
        return None
    if isinstance(size, str):
        match = re.fullmatch(r"(\d{1,9})x(\d{1,9})", size)
        sides = tuple(int(n) for n in match.groups()) if match else ()
    else:
        sides = (size, size) if isinstance(size, int) else size
    if len(sides) != 2 or min(sides) < 1:
        raise InputError(f"size must be a number of pixels or width x height such as 32x24, not {size}")
    if max(sides) > LARGEST_SIDE:
        raise InputError(f"size must be at most {LARGEST_SIDE} pixels a side, not {size}")
    return sides[0], sides[1]

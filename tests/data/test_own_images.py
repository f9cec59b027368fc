"""Own data as a folder of images by class."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from unskew.data import load
from unskew.errors import InputError


def save(path: Path, colour: int | tuple[int, int, int], size: tuple[int, int] = (6, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L" if isinstance(colour, int) else "RGB", size, colour).save(path)


def test_each_sub_folder_is_a_class(tmp_path: Path) -> None:
    for k in range(5):
        save(tmp_path / "pets" / "dog" / f"{k}.png", (k, 10, 20))
        save(tmp_path / "pets" / "cat" / f"{k}.bmp", (k, 30, 40))
    (tmp_path / "pets" / "dog" / "notes.txt").write_text("not an image")
    (tmp_path / "pets" / "readme.md").write_text("not a class")
    data = load(tmp_path / "pets")
    assert (data.name, data.labels, data.kind) == ("pets", ("cat", "dog"), "image")
    assert data.shape == (3, 4, 6)
    assert data.x.dtype == np.uint8
    assert (len(data), np.bincount(data.y_test).tolist()) == (8, [1, 1])
    assert set(data.x[data.y == 1, 1].ravel()) == {10}
    assert set(data.x[data.y == 0, 1].ravel()) == {30}


def test_train_and_test_folders_are_the_two_sets(tmp_path: Path) -> None:
    for part, count in (("train", 3), ("test", 2)):
        for k in range(count):
            save(tmp_path / part / "a" / f"{k}.png", k)
            save(tmp_path / part / "b" / f"{k}.png", 100 + k)
    data = load(f"{tmp_path}/")
    assert (len(data), len(data.y_test)) == (6, 4)
    assert data.shape == (1, 4, 6)
    assert data.x[:, 0, 0, 0].tolist() == [0, 1, 2, 100, 101, 102]
    assert data.x_test[:, 0, 0, 0].tolist() == [0, 1, 100, 101]


def test_a_class_that_is_only_tested_is_warned_of(tmp_path: Path) -> None:
    """A sub-folder with another spelling makes one: accuracy falls, and nothing else would say why."""
    for place in ("train/cat", "train/dog", "test/cat", "test/Dog"):
        save(tmp_path / place / "1.png", 5)
    with pytest.warns(
        UserWarning, match=r"1 of the 2 samples to test .* on are of class Dog, of which there is no"
    ):
        data = load(f"{tmp_path}/")
    assert data.labels == ("Dog", "cat", "dog")


@pytest.mark.parametrize("part", ["test", "Val"])
def test_a_test_folder_alone_is_no_class(part: str, tmp_path: Path) -> None:
    """Somebody forgot train/, and would get a single class of all images."""
    for label in "ab":
        save(tmp_path / part / label / "0.png", 7)
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} has {part}/ but no train/; put the training images by class into train/ beside it, or give "
        "the folder that holds the classes itself"
    )


def test_one_coloured_image_makes_all_of_them_coloured(tmp_path: Path) -> None:
    save(tmp_path / "a" / "0.png", 7)
    save(tmp_path / "a" / "1.png", 7)
    save(tmp_path / "b" / "0.png", (1, 2, 3))
    data = load(tmp_path, test=0)
    assert data.x[:, :, 0, 0].tolist() == [[7, 7, 7], [7, 7, 7], [1, 2, 3]]


def test_an_image_of_another_size_is_named_and_scaled_on_request(tmp_path: Path) -> None:
    save(tmp_path / "a" / "0.png", 7)
    save(tmp_path / "a" / "1.png", 7)
    save(tmp_path / "b" / "odd.png", 9, size=(12, 8))
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}/b/odd.png is 12x8 pixels but {tmp_path}/a/0.png is 6x4; give size=6x4 to scale them all"
    )
    assert load(tmp_path, size="6x4", test=0).shape == (1, 4, 6)
    assert load(f"{tmp_path}(size=5)", test=0).shape == (1, 5, 5)
    assert load(tmp_path, size=(3, 2), test=0).shape == (1, 2, 3)


@pytest.mark.parametrize("size", ["big", "0x4", (1, 2, 3), 0])
def test_a_size_that_is_none_is_refused(size: object, tmp_path: Path) -> None:
    save(tmp_path / "a" / "0.png", 7)
    with pytest.raises(InputError, match="size must be a number of pixels or width x height such as 32x24"):
        load(tmp_path, size=size)


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a" / "0.png", 7)
    (tmp_path / "a" / "1.png").write_bytes((tmp_path / "a" / "0.png").read_bytes()[:50])
    with pytest.raises(InputError, match=f"^{tmp_path}/a/1.png cannot be read as an image"):
        load(tmp_path)


def test_sixteen_bit_images_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    Image.fromarray(np.zeros((4, 6), np.uint16)).save(tmp_path / "a" / "0.png")
    with pytest.raises(InputError, match=r"0.png is an image of mode I;16; save it with 8 bits a channel"):
        load(tmp_path)


def test_a_folder_without_classes_or_a_class_without_images_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "flat" / "0.png", 7)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "flat")
    assert str(caught.value) == (
        f"{tmp_path}/flat holds no images by class; make a sub-folder of images for each class"
    )
    (tmp_path / "hollow" / "a").mkdir(parents=True)
    with pytest.raises(InputError) as caught:
        load(tmp_path / "hollow")
    assert str(caught.value) == (
        f"{tmp_path}/hollow/a holds no images; remove it or put images of the class into it"
    )


@pytest.mark.parametrize("size", [1_000_000, "64x5000", (5000, 2)])
def test_a_size_that_no_memory_holds_is_refused(size: object, tmp_path: Path) -> None:
    """A slip of the finger would otherwise fill the memory until the machine stops it."""
    save(tmp_path / "a" / "0.png", 7)
    with pytest.raises(InputError, match=r"^size must be at most 4096 pixels a side, not "):
        load(tmp_path, size=size)


def test_a_damaged_header_of_an_image_is_one_sentence(tmp_path: Path) -> None:
    """Each format's reader has errors of its own; that of .ppm is a ValueError."""
    save(tmp_path / "a" / "0.ppm", (1, 2, 3))
    (tmp_path / "a" / "1.ppm").write_bytes(b"P6\n6 x4\n255\n" + bytes(72))
    with pytest.raises(InputError, match=f"^{tmp_path}/a/1.ppm cannot be read as an image "):
        load(tmp_path)


@pytest.mark.parametrize("closed", ["", "a", "a/more"])
def test_a_folder_that_may_not_be_opened_is_not_called_empty(
    closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its images may be there; who may not look cannot say."""
    save(tmp_path / "a" / "more" / "0.png", 7)
    listed = os.scandir, os.listdir

    def guarded(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def guard(path: Any = ".") -> Any:
            if Path(path) == tmp_path / closed:
                raise PermissionError(13, "Permission denied", str(path))
            return look(path)

        return guard

    monkeypatch.setattr(os, "scandir", guarded(listed[0]))
    monkeypatch.setattr(os, "listdir", guarded(listed[1]))
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"the folder {tmp_path / closed} cannot be read (Permission denied); change its permissions or remove it"
    )

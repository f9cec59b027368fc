"""IDX files as people have them: packed, plain, in torchvision's folders, damaged."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from unskew.data.sources.fashion_mnist import FashionMnist
from unskew.data.sources.idx import FILES, parse_idx
from unskew.data.sources.mnist import Mnist
from unskew.errors import InputError

X = np.arange(6 * 28 * 28, dtype=np.uint32).astype(np.uint8).reshape(6, 28, 28)
Y = np.array([3, 1, 4, 1, 5, 9], np.uint8)
PARTS = (X[:4], Y[:4], X[4:], Y[4:])


@dataclass(frozen=True)
class Tiny(Mnist):
    """Six images, with no published checksums."""

    counts: ClassVar = (4, 2)
    checksums: ClassVar = (None,) * 4


def idx(array: np.ndarray) -> bytes:
    return b"\0\0\x08" + struct.pack(f">B{array.ndim}I", array.ndim, *array.shape) + array.tobytes()


def write(folder: Path, packed: bool = True, dotted: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for file, array in zip(FILES, PARTS, strict=True):
        name = file.replace("-idx", ".idx") if dotted else file
        data = idx(array)
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    return folder


@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", "mnist/raw", "."])
@pytest.mark.parametrize(("packed", "dotted"), [(True, False), (False, False), (False, True)])
def test_the_four_files_are_found_where_people_have_them(
    folder: str, packed: bool, dotted: bool, tmp_path: Path
) -> None:
    write(tmp_path / folder, packed, dotted)
    data = Tiny().read(tmp_path)
    assert np.array_equal(data.x[:, 0], X[:4])
    assert data.y.tolist() == [3, 1, 4, 1]
    assert np.array_equal(data.x_test[:, 0], X[4:])
    assert data.y_test.tolist() == [5, 9]
    assert data.shape == (1, 28, 28)


def test_a_truncated_gz_file_is_named_and_left_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "mnist") / "train-images-idx3-ubyte.gz"
    cut = path.read_bytes()[:-40]
    path.write_bytes(cut)
    with pytest.raises(
        InputError, match=f"^{path} is damaged: .*; put a whole copy in its place or remove it$"
    ):
        Tiny().read(tmp_path)
    assert path.read_bytes() == cut


def test_a_flipped_bit_in_a_gz_file_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "mnist") / "t10k-labels-idx1-ubyte.gz"
    data = bytearray(path.read_bytes())
    data[-5] ^= 1  # in the check sum
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=f"{path} is damaged: CRC check failed"):
        Tiny().read(tmp_path)


def test_a_short_plain_file_is_named_with_what_is_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "mnist", packed=False) / "train-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError) as caught:
        Tiny().read(tmp_path)
    assert str(caught.value) == (
        f"{path} is damaged: its header promises 3,136 bytes of data but 3,036 follow; "
        "put a whole copy in its place or remove it"
    )


def test_whole_files_with_other_counts_are_not_taken_for_mnist(tmp_path: Path) -> None:
    """Content is checked against the published files, so a well-formed stranger is refused."""
    write(tmp_path / "mnist")
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte.gz is damaged: its content has SHA256"):
        Mnist().read(tmp_path)


def test_wrong_counts_are_refused_where_no_checksum_is_known(tmp_path: Path) -> None:
    write(tmp_path / "mnist")

    @dataclass(frozen=True)
    class Other(Tiny):
        counts: ClassVar = (5, 2)

    with pytest.raises(InputError, match=r"it has the shape \(4, 28, 28\), not \(5, 28, 28\) as mnist has"):
        Other().read(tmp_path)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 a zip", b"\0\0\x08\x03", b"\0\0\x0d\x01\0\0\0\0"])
def test_what_is_no_idx_file_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="here is damaged: it does not begin like an IDX file of bytes"):
        parse_idx(data, "here")


def test_files_in_the_data_folder_itself_are_told_apart_by_their_labels(shared_data: Path) -> None:
    """With the folder of Fashion-MNIST as data folder, fashion_mnist is there and mnist is not."""
    folder = shared_data / "fashion-mnist"
    assert FashionMnist().find(folder) is not None
    assert Mnist().find(folder) is None

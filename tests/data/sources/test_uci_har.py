"""UCI-HAR as it is distributed: the folder of text files, its zip, and the zip around that zip."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from unskew.data.sources.uci_har import UciHar
from unskew.errors import InputError

RNG = np.random.default_rng(3)
SIGNALS = [f"{s}_{a}" for s in ("body_acc", "body_gyro", "total_acc") for a in "xyz"]
X = RNG.normal(size=(5, 128, 9)).astype(np.float32)
Y = np.array([1, 6, 2, 5, 3])
PEOPLE = np.array([1, 1, 30, 2, 4])


@dataclass(frozen=True)
class Tiny(UciHar):
    counts: ClassVar = (3, 2)


def text(rows: np.ndarray) -> bytes:
    """Sixteen columns a number and three digits in the exponent, as the authors wrote them."""

    def number(value: float) -> str:
        mantissa, exponent = f"{value:.7e}".split("e")
        return f"{mantissa}e{exponent[0]}{exponent[1:]:0>3}".rjust(16)

    return ("\n".join("".join(number(v) for v in row) for row in rows) + "\n").encode()


def files() -> dict[str, bytes]:
    found = {}
    for part, rows in (("train", slice(0, 3)), ("test", slice(3, 5))):
        found[f"{part}/y_{part}.txt"] = "".join(f"{v}\n" for v in Y[rows]).encode()
        found[f"{part}/subject_{part}.txt"] = "".join(f"{v}\n" for v in PEOPLE[rows]).encode()
        for k, signal in enumerate(SIGNALS):
            found[f"{part}/Inertial Signals/{signal}_{part}.txt"] = text(X[rows, :, k])
    return {f"UCI HAR Dataset/{name}": data for name, data in found.items()}


def zipped(content: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return out.getvalue()


def lay_out(content: dict[str, bytes], folder: Path) -> None:
    for name, data in content.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("form", ["folder", "flat", "zip", "zip in a zip"])
def test_windows_labels_and_people_are_read_in_every_form(form: str, tmp_path: Path) -> None:
    content = files()
    if form == "folder":
        lay_out(content, tmp_path)
    elif form == "flat":
        lay_out({n.removeprefix("UCI HAR Dataset/"): d for n, d in content.items()}, tmp_path)
    elif form == "zip":
        strays = {f"__MACOSX/{name}": b"\0" for name in content}
        (tmp_path / "UCI HAR Dataset.zip").write_bytes(zipped(content | strays))
    else:
        outer = zipped({"UCI HAR Dataset.zip": zipped(content), "UCI HAR Dataset.names": b"about"})
        (tmp_path / "human+activity+recognition+using+smartphones.zip").write_bytes(outer)
    data = Tiny().read(tmp_path)
    assert data.x.shape == (3, 1, 128, 9)
    assert data.x[:, 0] == pytest.approx(X[:3], rel=1e-6)
    assert data.x_test[:, 0] == pytest.approx(X[3:], rel=1e-6)
    assert data.y.tolist() == [0, 5, 1]
    assert data.y_test.tolist() == [4, 2]
    assert data.columns["subject"].tolist() == [1, 1, 30]


def test_three_channels_can_be_read_alone(tmp_path: Path) -> None:
    lay_out(files(), tmp_path)
    data = Tiny(channels="body_gyro").read(tmp_path)
    assert data.x[:, 0] == pytest.approx(X[:3, :, 3:6], rel=1e-6)


def test_a_file_with_too_few_lines_is_named(tmp_path: Path) -> None:
    content = files()
    name = "UCI HAR Dataset/train/Inertial Signals/body_acc_y_train.txt"
    content[name] = text(X[:2, :, 1])
    lay_out(content, tmp_path)
    with pytest.raises(InputError, match=r"body_acc_y_train.txt is damaged: it has 2 lines, not 3"):
        Tiny().read(tmp_path)


def test_a_line_cut_short_is_named(tmp_path: Path) -> None:
    content = files()
    name = "UCI HAR Dataset/test/Inertial Signals/total_acc_z_test.txt"
    content[name] = content[name][:-400]
    lay_out(content, tmp_path)
    with pytest.raises(InputError, match=r"total_acc_z_test.txt is damaged: it is not a table of numbers"):
        Tiny().read(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    content = files()
    del content["UCI HAR Dataset/test/subject_test.txt"]
    lay_out(content, tmp_path)
    with pytest.raises(InputError, match=r"UCI HAR Dataset is damaged: test/subject_test.txt is not in it"):
        Tiny().read(tmp_path)


def test_a_zip_with_a_flipped_bit_is_named(tmp_path: Path) -> None:
    packed = bytearray(zipped(files()))
    packed[len(packed) // 2] ^= 0xFF
    path = tmp_path / "UCI HAR Dataset.zip"
    path.write_bytes(bytes(packed))
    with pytest.raises(InputError, match=f"^{path} is damaged: "):
        Tiny().read(tmp_path)


def test_the_published_counts_are_checked(tmp_path: Path) -> None:
    lay_out(files(), tmp_path)
    with pytest.raises(InputError, match="lines, not 7,352"):
        UciHar().read(tmp_path)

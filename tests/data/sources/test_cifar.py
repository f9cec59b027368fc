"""CIFAR as it is distributed: Python pickles and binary records, in folders and archives."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from unskew.data.sources.cifar import unpickle
from unskew.data.sources.cifar10 import Cifar10
from unskew.data.sources.cifar100 import Cifar100
from unskew.errors import InputError

RNG = np.random.default_rng(7)
X = RNG.integers(0, 256, (12, 3, 32, 32), dtype=np.uint8)
FINE = RNG.integers(0, 10, 12).astype(np.uint8)
COARSE = RNG.integers(0, 3, 12).astype(np.uint8)
FINE_NAMES = [f"fine{k}" for k in range(10)]
COARSE_NAMES = ["water", "air", "land"]
BATCHES = [*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]


@dataclass(frozen=True)
class Tiny10(Cifar10):
    counts: ClassVar = (10, 2)
    checksums: ClassVar[dict[str, str]] = {}


@dataclass(frozen=True)
class Tiny100(Cifar100):
    counts: ClassVar = (8, 4)
    checksums: ClassVar[dict[str, str]] = {}


def files_of_cifar10(form: str) -> dict[str, bytes]:
    files = {}
    for k, batch in enumerate(BATCHES):
        rows = slice(2 * k, 2 * k + 2)
        if form == "py":
            content = {b"data": X[rows].reshape(2, -1), b"labels": FINE[rows].tolist()}
            files[batch] = pickle.dumps(content, protocol=2)
        else:
            files[f"{batch}.bin"] = np.concatenate([FINE[rows, None], X[rows].reshape(2, -1)], 1).tobytes()
    return {f"cifar-10-batches-{form}/{name}": data for name, data in files.items()}


def files_of_cifar100(form: str, protocol: int = 2) -> dict[str, bytes]:
    files = {}
    for name, rows in (("train", slice(0, 8)), ("test", slice(8, 12))):
        pixels = X[rows].reshape(-1, 3072)
        if form == "python":
            content = {
                "data": pixels,
                "fine_labels": FINE[rows].tolist(),
                "coarse_labels": COARSE[rows].tolist(),
            }
            files[name] = pickle.dumps(content, protocol)
        else:
            files[f"{name}.bin"] = np.concatenate([COARSE[rows, None], FINE[rows, None], pixels], 1).tobytes()
    if form == "python":
        names = {"fine_label_names": FINE_NAMES, "coarse_label_names": COARSE_NAMES}
        files["meta"] = pickle.dumps(names, protocol)
    else:
        files["fine_label_names.txt"] = "\n".join(FINE_NAMES).encode()
        files["coarse_label_names.txt"] = "\n".join(COARSE_NAMES).encode()
    return {f"cifar-100-{form}/{name}": data for name, data in files.items()}


def lay_out(files: dict[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def archive(files: dict[str, bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("form", ["py", "bin"])
@pytest.mark.parametrize("where", ["folder", "nested folder", "flat", "archive", "nested archive"])
def test_cifar10_is_read_in_every_form(form: str, where: str, tmp_path: Path) -> None:
    files = files_of_cifar10(form)
    published = f"cifar-10-{'python' if form == 'py' else 'binary'}.tar.gz"
    if where == "archive":
        archive(files, tmp_path / published)
    elif where == "nested archive":
        archive(files, tmp_path / "cifar10" / published)
    elif where == "flat":
        lay_out({Path(name).name: data for name, data in files.items()}, tmp_path)
    else:
        lay_out(files, tmp_path / "cifar10" if where == "nested folder" else tmp_path)
    data = Tiny10().read(tmp_path)
    assert np.array_equal(data.x, X[:10])
    assert np.array_equal(data.y, FINE[:10])
    assert np.array_equal(data.x_test, X[10:])
    assert np.array_equal(data.y_test, FINE[10:])


@pytest.mark.parametrize("form", ["python", "binary"])
@pytest.mark.parametrize("packed", [True, False])
def test_cifar100_is_read_in_every_form_with_its_superclasses(
    form: str, packed: bool, tmp_path: Path
) -> None:
    if packed:
        archive(files_of_cifar100(form), tmp_path / f"cifar-100-{form}.tar.gz")
    else:
        lay_out(files_of_cifar100(form), tmp_path)
    data = Tiny100().read(tmp_path)
    assert np.array_equal(data.x, X[:8])
    assert np.array_equal(data.y, FINE[:8])
    assert np.array_equal(data.y_test, FINE[8:])
    assert data.labels == tuple(FINE_NAMES)
    assert data.columns["superclass"].tolist() == [COARSE_NAMES[k] for k in COARSE[:8]]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol_are_read(protocol: int, tmp_path: Path) -> None:
    lay_out(files_of_cifar100("python", protocol), tmp_path)
    assert np.array_equal(Tiny100().read(tmp_path).x_test, X[8:])


class Malice:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo harm",)


@pytest.mark.parametrize("protocol", [2, 5])
def test_a_pickle_that_would_run_code_is_refused_and_not_run(
    protocol: int, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"it asks for (posix|nt)\.system, which no CIFAR file needs"):
        unpickle(pickle.dumps({"data": Malice()}, protocol), "data_batch_1")
    assert "harm" not in capfd.readouterr().out


@pytest.mark.parametrize("data", [b"", b"hello", pickle.dumps([1, 2]), pickle.dumps({"data": 1})[:-3]])
def test_what_is_no_cifar_pickle_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"^here is damaged: "):
        unpickle(data, "here")


def test_an_archive_that_ends_early_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cifar-10-python.tar.gz"
    archive(files_of_cifar10("py"), path)
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(InputError, match=f"^{path} is damaged: "):
        Tiny10().read(tmp_path)


def test_an_archive_without_one_batch_is_named_with_it(tmp_path: Path) -> None:
    files = {n: d for n, d in files_of_cifar10("py").items() if not n.endswith("batch_3")}
    archive(files, tmp_path / "cifar-10-python.tar.gz")
    with pytest.raises(InputError, match=r"cifar-10-python.tar.gz is damaged: data_batch_3 is not in it"):
        Tiny10().read(tmp_path)


def test_a_short_binary_batch_is_named(tmp_path: Path) -> None:
    files = files_of_cifar10("bin")
    files["cifar-10-batches-bin/data_batch_2.bin"] = files["cifar-10-batches-bin/data_batch_2.bin"][:-1]
    lay_out(files, tmp_path)
    with pytest.raises(
        InputError, match=r"data_batch_2.bin is damaged: its 6,145 bytes are not whole records"
    ):
        Tiny10().read(tmp_path)


def test_batches_that_are_not_the_published_ones_are_refused(tmp_path: Path) -> None:
    lay_out(files_of_cifar10("py"), tmp_path)
    with pytest.raises(InputError, match=r"data_batch_1 is damaged: its content has MD5"):
        Cifar10().read(tmp_path)


def test_wrong_counts_are_refused(tmp_path: Path) -> None:
    lay_out(files_of_cifar100("binary"), tmp_path)

    @dataclass(frozen=True)
    class Unchecked(Cifar100):
        checksums: ClassVar[dict[str, str]] = {}

    with pytest.raises(InputError, match=r"it holds 4 images, not 10,000 as CIFAR-100 has"):
        Unchecked().read(tmp_path)


def test_a_damaged_packed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cifar10.npz"
    offsets = np.array([0, 4])
    parts = {f"x_{p}_webp": np.arange(4, dtype=np.uint8) for p in ("train", "test")}
    parts |= {f"x_{p}_offsets": offsets for p in ("train", "test")}
    np.savez(path, **parts, y_train=np.zeros(1), y_test=np.zeros(1))
    with pytest.raises(InputError, match=f"{path} is damaged: image strip 0 of x_train_webp cannot be read"):
        Cifar10().read(tmp_path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=f"{path} is damaged: "):
        Cifar10().read(tmp_path)

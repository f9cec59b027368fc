"""The real data sets, from the files in ../shared/data: counts, shapes and contents as published."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from unskew.data import Dataset, load


@pytest.fixture(scope="module")
def cifar10(shared_data: Path) -> Dataset:
    return load("cifar10", shared_data)


def test_digits_are_1797_images_split_the_same_way_on_every_machine() -> None:
    """80% of each class rounded: 1,438 and 359; the seed fixes which."""
    digits = load("digits")
    assert repr(digits) == "Dataset('digits', 1438 train, 359 test, 1x8x8, 10 classes)"
    assert digits.x.dtype == np.uint8
    assert digits.x.max() == 16
    assert np.bincount(digits.y_test).tolist() == [36, 36, 35, 37, 36, 36, 36, 36, 35, 36]
    assert np.array_equal(load("digits").x_test, digits.x_test)
    assert not np.array_equal(load("digits", seed=1).x_test, digits.x_test)
    assert hashlib.sha256(digits.x_test.tobytes()).hexdigest()[:16] == "dc9fdf7ba6f89061"


@pytest.mark.parametrize("name", ["mnist", "fashion_mnist"])
def test_idx_images_have_the_published_counts(name: str, shared_data: Path) -> None:
    data = load(name, shared_data)
    assert (data.x.shape, data.x_test.shape) == ((60_000, 1, 28, 28), (10_000, 1, 28, 28))
    assert data.kind == "image"
    if name == "mnist":
        assert np.bincount(data.y).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
        assert data.mean / 255 == pytest.approx([0.1307], abs=5e-5)
        assert data.std / 255 == pytest.approx([0.3081], abs=5e-5)
    else:
        assert np.bincount(data.y).tolist() == [6000] * 10
        assert data.labels[9] == "Ankle boot"


def test_packed_cifar10_equals_the_published_binary_batches(cifar10: Dataset, tmp_path: Path) -> None:
    """Written as binary batches they pass the published MD5 sums and read back the same."""
    assert np.bincount(cifar10.y).tolist() == [5000] * 10
    assert np.bincount(cifar10.y_test).tolist() == [1000] * 10
    assert cifar10.mean / 255 == pytest.approx([0.4914, 0.4822, 0.4465], abs=5e-5)
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    parts = [(f"data_batch_{k + 1}.bin", slice(10_000 * k, 10_000 * (k + 1))) for k in range(5)]
    for file, rows in parts:
        _write_records(folder / file, cifar10.x[rows], cifar10.y[rows])
    _write_records(folder / "test_batch.bin", cifar10.x_test, cifar10.y_test)
    again = load("cifar10", tmp_path)
    for part in ("x", "y", "x_test", "y_test"):
        assert np.array_equal(getattr(again, part), getattr(cifar10, part))


def _write_records(path: Path, x: np.ndarray, y: np.ndarray) -> None:
    path.write_bytes(np.concatenate([y.astype(np.uint8)[:, None], x.reshape(len(x), -1)], 1).tobytes())


def test_rebuilt_uci_har_has_the_stated_windows_a_class_and_21_people(shared_data: Path) -> None:
    data = load("uci_har", shared_data)
    assert data.x.shape == (7415, 1, 128, 9)
    assert data.x.dtype == np.float32
    assert data.kind == "series"
    assert np.bincount(data.y).tolist() == [1226, 1073, 987, 1293, 1423, 1413]
    assert np.bincount(data.y_test).tolist() == [496, 471, 420, 508, 556, 545]
    people = set(data.columns["subject"].tolist())
    assert people == set(range(1, 31)) - {2, 4, 9, 10, 12, 13, 18, 20, 24}
    assert "rebuilt" in data.source
    # at rest total acceleration is gravity, 1 g
    standing = data.x[data.y == 4, 0, :, 6:]
    assert np.linalg.norm(standing, axis=-1).mean() == pytest.approx(1.0, abs=0.05)


def test_uci_har_channels_choose_three_of_the_nine(shared_data: Path) -> None:
    whole, three = load("uci_har", shared_data), load("uci_har(channels=total_acc)", shared_data)
    assert three.name == "uci_har(channels=total_acc)"
    assert np.array_equal(three.x, whole.x[..., 6:])


def test_packed_urbansound8k_tests_on_fold_10_and_knows_recordings(shared_data: Path) -> None:
    data = load("urbansound8k", shared_data)
    assert (data.x.shape, data.x_test.shape) == ((2148, 1, 64, 126), (837, 1, 64, 126))
    assert np.bincount(data.columns["fold"]).tolist() == [0, 873, 888, 387]
    assert len(data.columns["fsid"]) == 2148
    assert data.kind == "spectrogram"
    fold_1 = load("urbansound8k(test_fold=1)", shared_data)
    assert len(fold_1.y_test) == 873


def test_urbansound8k_can_hold_out_a_random_fifth_as_flea_does(shared_data: Path) -> None:
    data = load("urbansound8k(test=0.2)", shared_data)
    assert (len(data), len(data.y_test)) == (2388, 597)


def test_a_fold_that_is_not_there_is_refused_with_those_that_are(shared_data: Path) -> None:
    message = "fold 5 is not in urbansound8k-folds-logmel.npz; test_fold can be 1, 2, 3, 10"
    with pytest.raises(ValueError, match=message):
        load("urbansound8k(test_fold=5)", shared_data)


def test_packed_fsdd_has_450_training_recordings_of_each_of_six_speakers(shared_data: Path) -> None:
    data = load("fsdd", shared_data)
    assert (data.x.shape, data.x_test.shape) == ((2700, 1, 64, 64), (300, 1, 64, 64))
    speakers, counts = np.unique(data.columns["speaker"], return_counts=True)
    assert speakers.tolist() == ["george", "jackson", "lucas", "nicolas", "theo", "yweweler"]
    assert counts.tolist() == [450] * 6
    assert np.bincount(data.y_test).tolist() == [30] * 10
    span = data.x.max(axis=(1, 2, 3)) - data.x.min(axis=(1, 2, 3))
    assert span.max() == pytest.approx(80, abs=1e-3)

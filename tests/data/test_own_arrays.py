"""Own data as arrays, tensors, lists and .npz files."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unskew.data import from_arrays, from_frame, load
from unskew.data.dataset import Dataset
from unskew.data.partition import Partition
from unskew.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.arange(20) % 2


def test_a_fifth_of_each_class_is_held_out_by_the_seed() -> None:
    data = from_arrays(X, Y, columns={"site": np.arange(20)})
    assert np.bincount(data.y_test).tolist() == [2, 2]
    assert (len(data), data.shape, data.kind, data.labels) == (16, (3,), "vector", ("0", "1"))
    assert np.array_equal(data.x, X[data.columns["site"]].astype(np.float32))
    again = from_arrays(X, Y, columns={"site": np.arange(20)})
    assert np.array_equal(again.columns["site"], data.columns["site"])
    other = from_arrays(X, Y, seed=1, columns={"site": np.arange(20)})
    assert not np.array_equal(other.columns["site"], data.columns["site"])


def test_a_given_test_set_is_taken_as_it_is() -> None:
    data = from_arrays(X, Y, X[:5], Y[:5])
    assert (len(data), len(data.y_test)) == (20, 5)
    assert data.mean == pytest.approx(X.mean(axis=0), abs=1e-6)
    assert data.std == pytest.approx(X.std(axis=0), abs=1e-6)


def test_no_test_set_can_be_asked_for() -> None:
    assert len(from_arrays(X, Y, test=0).y_test) == 0


@pytest.mark.parametrize(
    "wrap", [torch.as_tensor, list, lambda a: a.tolist(), lambda a: list(torch.as_tensor(a))]
)
def test_tensors_and_lists_are_the_same_as_arrays(wrap: Any) -> None:
    data = from_arrays(wrap(X), wrap(Y))
    assert np.array_equal(data.x, from_arrays(X, Y).x)
    assert np.array_equal(data.y, from_arrays(X, Y).y)


def test_a_tensor_with_a_gradient_or_of_bfloat16_is_read() -> None:
    tensor = torch.ones(20, 3, requires_grad=True)
    assert from_arrays(tensor, Y).x.dtype == np.float32
    assert from_arrays(tensor.bfloat16(), Y).x.dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "dtype", "kind", "sample"),
    [
        ((20, 7), np.float64, "vector", (7,)),
        ((20, 28, 28), np.uint8, "image", (1, 28, 28)),
        ((20, 28, 28), np.float32, "image", (1, 28, 28)),
        ((20, 32, 32, 3), np.uint8, "image", (3, 32, 32)),
        ((20, 3, 32, 32), np.uint8, "image", (3, 32, 32)),
        ((20, 1, 28, 28), np.float32, "image", (1, 28, 28)),
        ((20, 128, 9), np.float32, "series", (1, 128, 9)),
        ((20, 1, 128, 9), np.float32, "series", (1, 128, 9)),
    ],
)
def test_the_shape_tells_what_it_is(
    shape: tuple[int, ...], dtype: type, kind: str, sample: tuple[int, ...]
) -> None:
    data = from_arrays(np.zeros(shape, dtype), Y)
    assert (data.kind, data.shape) == (kind, sample)
    assert data.x.dtype == (np.uint8 if dtype is np.uint8 else np.float32)


def test_channels_that_come_last_are_moved_to_the_front() -> None:
    image = RNG.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8)
    assert np.array_equal(from_arrays(image, Y, test=0).x, image.transpose(0, 3, 1, 2))


def test_the_kind_can_be_said() -> None:
    data = from_arrays(np.zeros((20, 64, 64), np.float32), Y, kind="spectrogram")
    assert (data.kind, data.shape) == ("spectrogram", (1, 64, 64))


def test_images_of_whole_numbers_are_kept_in_bytes() -> None:
    assert from_arrays(np.full((20, 8, 8), 200), Y).x.dtype == np.uint8
    assert from_arrays(np.full((20, 8, 8), 2000), Y).x.dtype == np.float32


@pytest.mark.parametrize(
    ("y", "labels", "codes"),
    [
        (["cat", "dog", "ant", "cat"], ("ant", "cat", "dog"), [1, 2, 0, 1]),
        ([6, 1, 3, 1], ("1", "3", "6"), [2, 0, 1, 0]),
        ([-1, 1, 1, -1], ("-1", "1"), [0, 1, 1, 0]),
        ([1.0, 2.0, 1.0, 1.0], ("1", "2"), [0, 1, 0, 0]),
        ([True, False, True, True], ("0", "1"), [1, 0, 1, 1]),
        (np.array(["b", "a", "b", "b"], object), ("a", "b"), [1, 0, 1, 1]),
    ],
)
def test_every_distinct_label_is_a_class_in_sorted_order(
    y: Any, labels: tuple[str, ...], codes: list[int]
) -> None:
    data = from_arrays(X[:4], y, test=0)
    assert data.labels == labels
    assert data.y.tolist() == codes


def test_given_class_names_set_the_order_and_may_lack_samples() -> None:
    data = from_arrays(X[:3], ["dog", "cat", "dog"], labels=["dog", "cat", "owl"], test=0)
    assert (data.labels, data.y.tolist()) == (("dog", "cat", "owl"), [0, 1, 0])
    data = from_arrays(X[:3], [2, 0, 2], labels=["dog", "cat", "owl"], test=0)
    assert (data.classes, data.y.tolist()) == (3, [2, 0, 2])


def test_a_class_that_is_only_in_the_test_set_counts() -> None:
    data = from_arrays(X[:2], ["a", "c"], X[:1], ["b"])
    assert (data.labels, data.y.tolist(), data.y_test.tolist()) == (("a", "b", "c"), [0, 2], [1])


def test_a_sparse_tensor_is_filled_with_its_zeros() -> None:
    """What a sparse tensor leaves out is zero, so nothing is guessed."""
    dense = torch.eye(20)
    assert np.array_equal(from_arrays(dense.to_sparse(), Y).x, from_arrays(dense, Y).x)


def test_words_in_bytes_are_words_and_an_unused_mask_is_no_mask(tmp_path: Path) -> None:
    """C programs and HDF5 save words as bytes; a masked array that masks nothing is an array."""
    path = tmp_path / "bytes.npz"
    words = np.array(["ä".encode(), b"b"])
    np.savez(path, x=X, y=words[Y], labels=words)
    assert load(path).labels == ("ä", "b")
    assert from_arrays(np.ma.masked_array(X), Y).x.shape == (16, 3)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("y", [(Y + 1) * 1e19, Y.astype(np.uint64) + np.uint64(2**63)])
def test_a_data_set_refuses_labels_that_int64_cannot_hold(y: np.ndarray) -> None:
    """Cast without a look, they would be said to be negative."""
    with pytest.raises(
        InputError, match=r"must be places among the classes, but sample 0 has (1e.19|9223372)"
    ):
        Dataset("own", X, y, X[:0], Y[:0], ("a", "b"), kind="vector")


def _with(array: np.ndarray, place: tuple[int, ...], value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"x": _with(X, (7, 1), np.nan)},
            "x has NaN or infinite values in 1 of 20 samples, first in sample 7; fill them in or drop those "
            "samples",
        ),
        (
            {"x": _with(_with(X, (3, 0), np.inf), (5, 0), -np.inf)},
            "x has NaN or infinite values in 2 of 20 samples, first in sample 3; fill them in or drop those "
            "samples",
        ),
        (
            {"x": [[1.0, 2.0]] * 4 + [[1.0]] + [[1.0, 2.0]] * 15},
            "x is ragged: sample 0 has the shape (2,) but sample 4 has (1,); give every sample the same shape",
        ),
        ({"x": X[:, 0]}, "x has the shape (20,); give at least one row of features a sample"),
        ({"x": X[:0], "y": []}, "x has the shape (0, 3); give at least one row of features a sample"),
        ({"x": [["a", "b"]] * 20}, "x must hold numbers, not <U1"),
        ({"y": Y[:19]}, "y must hold one label for each of 20 samples, not the shape (19,)"),
        (
            {"y": np.eye(20)},
            "y must hold one label for each of 20 samples, not the shape (20, 20); of one-hot rows give y.argmax(1)",
        ),
        (
            {"y": np.asarray(Y)[:, None]},
            "y must hold one label for each of 20 samples, not the shape (20, 1); give y[:, 0]",
        ),
        ({"y": Y + 0.5}, "labels must be whole numbers or words, but sample 0 of y has 0.5"),
        (
            {"y": _with(Y.astype(float), (4,), np.nan)},
            "labels must be whole numbers or words, but sample 4 of y has nan",
        ),
        (
            {"y": (Y + 1) * 1e19},
            "sample 0 of y has the label 1e+19, too large a number to tell classes apart by; give smaller numbers "
            "or words",
        ),
        (
            {"y": Y.astype(np.uint64) + np.uint64(2**63)},
            "sample 0 of y has the label 9223372036854775808, too large a number to tell classes apart by; give "
            "smaller numbers or words",
        ),
        (
            {"y": (Y + 1) * 1e19, "labels": ["a", "b"]},
            "sample 0 of y has the label 1e+19, too large a number to tell classes apart by; give smaller numbers "
            "or words",
        ),
        (
            {"x": X * 1e300},
            "x has values too large for float32, which ends at 3.4e38, in 20 of 20 samples, first in sample 0; "
            "scale them",
        ),
        (
            {"x": np.ma.masked_array(X, np.arange(60).reshape(20, 3) == 7)},
            "x has 1 masked values, first in sample 2; fill them in or drop those samples",
        ),
        (
            {"y": np.array([b"a", b"\xe9"])[Y]},
            "y holds the bytes b'\\xe9', which are not UTF-8; decode them to words first",
        ),
        ({"y": ["a"] * 19 + [None]}, "sample 19 of y has no label; drop it or fill it in"),
        ({"y": Y + 1j}, "labels must be whole numbers or words, but y holds complex128"),
        (
            {"y": ["cat", "dgo"] * 10, "labels": ["cat", "dog"]},
            "there is no class 'dgo'; did you mean 'dog'?",
        ),
        (
            {"labels": ["a", "b", "a"]},
            "own data has two classes called 'a'; give every class its own name",
        ),
        ({"labels": ["only"]}, "the labels of own data go from 0 to 0, but sample 1 has 1"),
        ({"x_test": X}, "x_test and y_test go together; give both or neither"),
        (
            {"x_test": X[:, :2], "y_test": Y},
            "samples of x_test have the shape (2,), those of x (3,)",
        ),
        ({"columns": {"site": [1, 2]}}, "column 'site' has the shape (2,) for 20 samples"),
        (
            {"y": np.arange(20)},
            "no class of own data has two samples, so none can be held out; see that the labels are classes, or give "
            "samples to test on",
        ),
        ({"test": 1.0}, "the share held out for testing must be at least 0 and below 1, not 1.0"),
        ({"kind": "imgae"}, "there is no kind of data 'imgae'; did you mean 'image'?"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_bad_arrays_are_refused_in_one_sentence(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        from_arrays(**({"x": X, "y": Y} | arguments))
    assert str(caught.value) == message


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=60), st.floats(0.05, 0.9), st.integers(0, 9))
def test_holding_out_conserves_every_sample(y: list[int], share: float, seed: int) -> None:
    """Each sample is either trained on or tested on, with its own label; every class stays in training."""
    x = np.arange(len(y), dtype=np.float32)[:, None]
    try:
        data = from_arrays(x, y, test=share, seed=seed)
    except InputError:
        assert max(y.count(v) for v in y) == 1
        return
    assert sorted([*data.x[:, 0], *data.x_test[:, 0]]) == list(range(len(y)))
    for part_x, part_y in ((data.x, data.y), (data.x_test, data.y_test)):
        assert [y[int(k)] for k in part_x[:, 0]] == [int(data.labels[k]) for k in part_y]
    assert {int(data.labels[k]) for k in data.y} == set(y)


def test_an_npz_file_holds_x_y_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "readings.npz"
    np.savez(path, x=X, y=Y, labels=["off", "on"], person=np.arange(20) // 5, rate=50)
    data = load(str(path))
    assert (data.name, data.labels, data.source) == ("readings", ("off", "on"), "readings.npz")
    assert list(data.columns) == ["person"]
    assert len(data.columns["person"]) == 16
    assert len(load(f"{path}(test=0.5, seed=3)").y_test) == 10
    assert len(load(path, test=0.5).y_test) == 10


def test_an_npz_file_may_hold_its_own_test_set(tmp_path: Path) -> None:
    path = tmp_path / "split.npz"
    np.savez(path, x_train=X, y_train=Y, x_test=X[:4], y_test=Y[:4], class_names=["a", "b"])
    data = load(path)
    assert (len(data), len(data.y_test), data.labels) == (20, 4, ("a", "b"))


def test_an_npz_file_without_x_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, data=X, y=Y)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path} must hold the arrays x and y; it holds data, y"


def test_a_single_array_is_no_npz_file(tmp_path: Path) -> None:
    """np.save writes to any name that it is given."""
    path = tmp_path / "arr.npz"
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == (
        f"{path} holds a single array, as np.save writes it; write several by their names with np.savez"
    )


def _with_header(path: Path, header: bytes) -> None:
    """An .npz file whose y has this header, in an archive that is whole."""
    text = header.ljust(117) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(80))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (5, ",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (5L, 2)} '''",
        b"{'descr': [[]], 'fortran_order': False, 'shape': (5, 2), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -7), }",
    ],
)
def test_a_damaged_header_is_one_sentence(header: bytes, tmp_path: Path) -> None:
    """It fails in the tokenizer, in the types or in the shape, and a saved partition fails alike."""
    path = tmp_path / "broken.npz"
    _with_header(path, header)
    for read in (load, Partition.load):
        with pytest.raises(InputError, match=f"^{path} is damaged: it is not a whole .npz archive; "):
            read(path)


def test_a_file_in_an_npz_that_is_no_array_is_named(tmp_path: Path) -> None:
    """numpy hands such a file over as bytes."""
    path = tmp_path / "more.npz"
    np.savez(path, x=X, y=Y)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("site.npy", b"not an array")
    with pytest.raises(InputError, match=f"^{path} is damaged: 'site' in it is not an array; "):
        load(path)


def test_a_file_with_a_password_is_said_to_have_one(tmp_path: Path) -> None:
    """Zip archives can be locked, and numpy has no key."""
    path = tmp_path / "locked.npz"
    np.savez(path, x=X, y=Y)
    data = bytearray(path.read_bytes())
    for start, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(start)
        while at >= 0:
            data[at + flags] |= 1
            at = data.find(start, at + 1)
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        load(path)
    assert str(caught.value) == f"{path} is locked with a password; save it without one"


def test_an_option_that_npz_has_not_is_refused_with_those_it_has(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=X, y=Y)
    with pytest.raises(InputError) as caught:
        load(path, label="y")
    assert str(caught.value) == "npz has no parameter 'label'; it is npz(test=0.2, seed=0, kind=none)"


def test_numbers_that_float32_does_not_tell_apart_are_warned_of() -> None:
    """Times in seconds are 128 apart in float32: a model that had learnt from them is as good as chance, silently."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    near = np.column_stack([np.full(60, 1.7e9), 20.0 * y + rng.normal(size=60), 1e-9 * rng.normal(size=60)])
    far = near + np.array([0, 1.7e9, 0])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        from_arrays(near, y)  # neither a constant nor small numbers
        from_arrays(far.astype(np.float32), y)  # what was never told apart
        assert not said
        from_arrays(far, y)
        from_frame(pandas.DataFrame(far, columns=["a", "time", "c"]).assign(y=y), "y")
    (arrays, table) = (str(one.message) for one in said)
    assert arrays.startswith("feature 1 of x lies between 16999999")
    assert table.startswith("column 'time' of the frame lies between 16999999")
    assert arrays.endswith("where float32 hardly tells numbers apart; subtract its smallest from all")

"""Your own data: arrays, and the files and folders they come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np

from unskew.arrays import Array
from unskew.data.cells import FLOAT32_IN_WORDS, listed, warn_of_lost_digits
from unskew.data.dataset import Dataset, Kind, channel_moments, hold_out, too_large_label
from unskew.data.files import read_npz
from unskew.errors import InputError, unknown
from unskew.expression import convert
from unskew.notices import warn


def from_arrays(
    x: Any,
    y: Any,
    x_test: Any = None,
    y_test: Any = None,
    labels: Sequence[str] | None = None,
    columns: Mapping[str, Any] | None = None,
    test: float = 0.2,
    seed: int = 0,
    name: str = "own data",
    kind: Kind | None = None,
    source: str = "arrays",
) -> Dataset:
    """A data set of your own arrays, tensors or lists: one row of ``x`` and one of ``y`` a sample.

    Images are [n, H, W], [n, C, H, W] or [n, H, W, C] with 1, 3 or 4 channels; time series are [n, time,
    channels]; anything else is [n, features]. ``kind`` settles it where the shape does not. Labels are whole
    numbers or words: each distinct one is a class, in sorted order, unless ``labels`` lists the classes.
    ``columns`` hold one value per sample of ``x``, to split clients by. Without ``x_test`` the share ``test``
    of each class is held out, drawn by ``seed``.
    """
    test, seed = convert(test, float, "test"), convert(seed, int, "seed")
    if kind is not None and kind not in get_args(Kind):
        raise unknown("kind of data", str(kind), get_args(Kind))
    features, found = sample_array(x, "x", kind)
    if (x_test is None) != (y_test is None):
        raise InputError("x_test and y_test go together; give both or neither")
    sides = {"y": (plain_array(y, "y"), len(features))}
    if x_test is not None:
        features_test, _ = sample_array(x_test, "x_test", found)
        if features_test.shape[1:] != features.shape[1:]:
            raise InputError(
                f"samples of x_test have the shape {features_test.shape[1:]}, those of x {features.shape[1:]}"
            )
        sides["y_test"] = plain_array(y_test, "y_test"), len(features_test)
    for what, (values, samples) in sides.items():
        if values.ndim != 1 or len(values) != samples:
            remedy = ""
            if values.ndim == 2 and len(values) == samples:
                one = values.shape[1] == 1  # whose largest is always the first
                remedy = f"; give {what}[:, 0]" if one else f"; of one-hot rows give {what}.argmax(1)"
            raise InputError(
                f"{what} must hold one label for each of {samples} samples, not the shape {values.shape}{remedy}"
            )
    names, coded = class_codes({what: values for what, (values, _) in sides.items()}, labels)
    aside = {key: plain_array(values, f"column {key!r}") for key, values in (columns or {}).items()}
    for key, values in aside.items():
        if values.shape != (len(features),):
            raise InputError(f"column {key!r} has the shape {values.shape} for {len(features)} samples")
    if x_test is not None:
        train_x, train_y, test_x, test_y = features, coded["y"], features_test, coded["y_test"]
    else:
        held = split_held_out(coded["y"], test, seed, name)
        train_x, train_y = features[~held], coded["y"][~held]
        test_x, test_y = features[held], coded["y"][held]
        aside = {key: values[~held] for key, values in aside.items()}
    mean, std = channel_moments(train_x)
    made = Dataset(name, train_x, train_y, test_x, test_y, names, found, aside, mean, std, source)
    if x_test is not None:
        _warn_of_untaught(made)
    return made


def _warn_of_untaught(dataset: Dataset) -> None:
    """Say which classes are only tested: every metric falls by them, and none says why."""
    taught, tested = (np.bincount(y, minlength=dataset.classes) for y in (dataset.y, dataset.y_test))
    only = np.flatnonzero((tested > 0) & (taught == 0))
    if len(only):
        warn(
            f"{tested[only].sum():,} of the {tested.sum():,} samples to test {dataset.name} on are of class "
            f"{listed([dataset.labels[k] for k in only])}, of which there is no sample to train on: no model can "
            "tell them; see that both sets have the same classes, under the same names",
            stacklevel=3,
        )


def split_held_out(y: Array, test: float, seed: int, name: str) -> Array:
    """Which samples are held out to test on, as a mask; a share that can take none is refused."""
    held = hold_out(y, test, seed)
    if test > 0 and not held.any():
        raise InputError(
            f"no class of {name} has two samples, so none can be held out; see that the labels are classes, or "
            "give samples to test on"
        )
    return held


def class_codes(
    sides: Mapping[str, Array], labels: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[str, Array]]:
    """The names of the classes, and every label as its place among them."""
    values = {what: _label_values(side, what) for what, side in sides.items()}
    together = np.concatenate(list(values.values()))
    if labels is None:
        distinct = np.unique(together)
        names = tuple(str(v) for v in distinct.tolist())
        return names, {what: np.searchsorted(distinct, side) for what, side in values.items()}
    names = tuple(str(name) for name in labels)
    if together.dtype.kind != "U":
        return names, values  # numbers are places in ``labels``; Dataset checks their range
    place = {name: k for k, name in enumerate(names)}
    strange = next((v for v in together.tolist() if v not in place), None)
    if strange is not None:
        raise unknown("class", strange, names)
    return names, {what: np.array([place[v] for v in side.tolist()]) for what, side in values.items()}


def _label_values(values: Array, what: str) -> Array:
    """Labels as int64 or as words; anything else is named with its sample."""
    if values.dtype.kind == "O":
        empty = [k for k, v in enumerate(values) if v is None or v != v]  # NaN differs from itself
        if empty:
            raise InputError(f"sample {empty[0]} of {what} has no label; drop it or fill it in")
        values = np.array([str(v) for v in values]) if any(isinstance(v, str) for v in values) else values
        values = values if values.dtype.kind == "U" else np.array(values.tolist())
    if values.dtype.kind in "US":
        return values.astype(str)
    if (large := too_large_label(values)).any():
        place = int(np.flatnonzero(large)[0])
        raise InputError(
            f"sample {place} of {what} has the label {values[place]}, too large a number to tell classes "
            "apart by; give smaller numbers or words"
        )
    if values.dtype.kind in "iub":
        return values.astype(np.int64)
    if values.dtype.kind == "f":
        bad = np.flatnonzero(~np.isfinite(values) | (values != np.floor(values)))
        if not len(bad):
            return values.astype(np.int64)
        raise InputError(
            f"labels must be whole numbers or words, but sample {bad[0]} of {what} has {values[bad[0]]}"
        )
    raise InputError(f"labels must be whole numbers or words, but {what} holds {values.dtype}")


def sample_array(x: Any, what: str, kind: Kind | None) -> tuple[Array, Kind]:
    """Samples channel first in a compact type, and what kind they are."""
    array = plain_array(x, what)
    if array.dtype.kind not in "iufb":
        raise InputError(f"{what} must hold numbers, not {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        raise InputError(f"{what} has the shape {array.shape}; give at least one row of features a sample")
    wide = array
    if array.dtype.kind == "f":
        finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if not finite.all():
            raise InputError(
                f"{what} has NaN or infinite values in {int((~finite).sum())} of {len(array)} samples, "
                f"first in sample {int(np.flatnonzero(~finite)[0])}; fill them in or drop those samples"
            )
        with np.errstate(over="ignore"):
            array = array.astype(np.float32)
        held = np.isfinite(array).reshape(len(array), -1).all(axis=1)
        if not held.all():
            raise InputError(
                f"{what} has values {FLOAT32_IN_WORDS}, in {int((~held).sum())} of {len(array)} samples, "
                f"first in sample {int(np.flatnonzero(~held)[0])}; scale them"
            )
    found = kind or _guess(array)
    if found == "vector":
        rows = np.ascontiguousarray(array.reshape(len(array), -1), np.float32)
        warn_of_lost_digits(wide.reshape(len(wide), -1), rows, lambda k: f"feature {k} of {what}")
        return rows, found
    if found == "image" and array.dtype != np.uint8 and array.dtype.kind in "iub":
        if array.min() < 0 or array.max() > 255:
            array = array.astype(np.float32)
        else:
            array = array.astype(np.uint8)
    elif array.dtype != np.uint8:
        array = array.astype(np.float32, copy=False)
    if array.ndim == 2:
        array = array[:, None]
    if array.ndim == 3:
        array = array[:, None]
    elif found == "image" and array.ndim == 4 and array.shape[1] not in _CHANNELS:
        array = np.moveaxis(array, -1, 1) if array.shape[-1] in _CHANNELS else array
    return np.ascontiguousarray(array), found


_CHANNELS = (1, 3, 4)


def _guess(array: Array) -> Kind:
    """What arrays of this shape usually are."""
    if array.ndim == 2:
        return "vector"
    if array.ndim == 3:
        return "image" if array.dtype == np.uint8 or array.shape[1] == array.shape[2] else "series"
    if array.ndim == 4 and (array.shape[1] in _CHANNELS or array.shape[-1] in _CHANNELS):
        # one channel that is far longer than it is wide is a recording of sensors, as UCI-HAR's 1x128x9
        long = array.shape[1] == 1 and array.shape[2] >= 4 * array.shape[3] and array.dtype != np.uint8
        return "series" if long else "image"
    return "image" if array.ndim == 4 else "vector"


def plain_array(values: Any, what: str) -> Array:
    """Anything array-like as a numpy array; torch is looked for only if somebody has loaded it."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        if values.is_meta:
            raise InputError(
                f"{what} is a tensor on the device 'meta', which holds no numbers; give one that does"
            )
        tensor = values.detach().cpu()
        tensor = tensor if tensor.layout == torch.strided else tensor.to_dense()
        values = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    elif isinstance(values, (list, tuple)):
        values = [
            plain_array(v, what) if torch is not None and isinstance(v, torch.Tensor) else v for v in values
        ]
    if isinstance(values, np.ma.MaskedArray) and (masked := np.argwhere(np.ma.getmaskarray(values))).size:
        raise InputError(
            f"{what} has {len(masked)} masked values, first in sample {masked[0][0]}; fill them in or drop "
            "those samples"
        )
    try:
        array = np.asarray(values)
    except ValueError:
        shapes = [np.shape(v) for v in values]
        odd = next((k for k, shape in enumerate(shapes) if shape != shapes[0]), 0)
        raise InputError(
            f"{what} is ragged: sample 0 has the shape {shapes[0]} but sample {odd} has {shapes[odd]}; "
            "give every sample the same shape"
        ) from None
    return _decoded(array, what) if array.dtype.kind == "S" else array


def _decoded(values: Array, what: str) -> Array:
    """Words that were saved as bytes, as words."""
    try:
        return np.char.decode(values, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{what} holds the bytes {error.object!r}, which are not UTF-8; decode them to words first"
        ) from None


@dataclass(frozen=True)
class Npz:
    """An .npz file with ``x`` and ``y`` and, if it has them, ``x_test``, ``y_test`` and ``labels``.

    ``x_train``, ``y_train`` and ``class_names`` are understood too. Every other array with one value per sample
    is a column that clients can be split by.
    """

    name: ClassVar[str] = "npz"

    test: float = 0.2
    seed: int = 0
    kind: Kind | None = None

    def read(self, path: Path) -> Dataset:
        arrays = read_npz(path)
        held = ", ".join(arrays) or "nothing"
        x, y = (arrays.pop(key, arrays.pop(f"{key}_train", None)) for key in ("x", "y"))
        if x is None or y is None:
            raise InputError(f"{path} must hold the arrays x and y; it holds {held}")
        x_test, y_test = arrays.pop("x_test", None), arrays.pop("y_test", None)
        names = arrays.pop("labels", arrays.pop("class_names", None))
        labels = None if names is None else [str(v) for v in np.ravel(plain_array(names, "labels"))]
        columns = {key: values for key, values in arrays.items() if values.shape == x.shape[:1]}
        return from_arrays(
            x,
            y,
            x_test,
            y_test,
            labels=labels,
            columns=columns,
            test=self.test,
            seed=self.seed,
            name=path.stem,
            kind=self.kind,
            source=path.name,
        )

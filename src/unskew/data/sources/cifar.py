"""The two formats the CIFAR data sets are distributed in: Python pickles and binary records."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

from unskew.arrays import Array
from unskew.data.files import damaged

PIXELS = 3 * 32 * 32


class _ArraysOnly(pickle.Unpickler):
    """Reads pickles of plain values and numpy arrays; any other name in one is refused, never called."""

    def find_class(self, module: str, name: str) -> Any:
        module = module.replace("numpy.core", "numpy._core")  # as numpy 1 and 2 spell it
        if (module, name) in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if (module, name) == ("_codecs", "encode"):  # how Python 3 writes bytes in an old protocol
            return _latin_bytes
        if (module, name) == ("numpy._core.multiarray", "_reconstruct"):
            return np.empty((0,)).__reduce__()[0]  # numpy's own, wherever it lives
        if (module, name) == ("numpy._core.numeric", "_frombuffer"):
            return _from_buffer
        raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR file needs")


def _latin_bytes(text: str, encoding: str = "latin1") -> bytes:
    return text.encode(encoding)


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any) -> Array:
    return np.frombuffer(buffer, dtype).reshape(shape, order=order)


def unpickle(data: bytes, where: str) -> dict[str, Any]:
    """The dictionary in a CIFAR pickle, its keys as words."""
    try:
        found = _ArraysOnly(io.BytesIO(data), encoding="bytes").load()
        return {k.decode() if isinstance(k, bytes) else str(k): v for k, v in found.items()}
    except Exception as error:  # a damaged pickle can raise nearly anything
        why = str(error) if isinstance(error, pickle.UnpicklingError) else "it is not a whole CIFAR pickle"
        raise damaged(where, why) from None


def read_pickle(data: bytes, label_keys: tuple[str, ...], where: str) -> tuple[Array, list[Array]]:
    """Images [n, 3, 32, 32] and, for each key, the labels of a Python batch."""
    batch = unpickle(data, where)
    images = batch.get("data")
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (PIXELS,):
        raise damaged(where, f"it holds no rows of {PIXELS} bytes under 'data'")
    labels = []
    for key in label_keys:
        values = batch.get(key)
        if values is None or len(values) != len(images):
            raise damaged(where, f"it does not hold {len(images)} numbers under {key!r}")
        labels.append(np.asarray(values, np.uint8))
    return images.reshape(-1, 3, 32, 32), labels


def read_records(data: bytes, labels: int, where: str) -> tuple[Array, list[Array]]:
    """Images [n, 3, 32, 32] and the label columns of a binary batch: label bytes, then the pixels."""
    width = labels + PIXELS
    if not data or len(data) % width:
        raise damaged(where, f"its {len(data):,} bytes are not whole records of {width:,}")
    records = np.frombuffer(data, np.uint8).reshape(-1, width)
    return records[:, labels:].reshape(-1, 3, 32, 32), [records[:, k] for k in range(labels)]


def names_of(values: Any) -> tuple[str, ...]:
    """Class names from a pickle's list or a text file, as words."""
    if isinstance(values, bytes):
        values = values.decode().split()
    return tuple(v.decode() if isinstance(v, bytes) else str(v) for v in values)

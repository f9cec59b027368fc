"""A data set: one pool of training samples, a test set, and what is known about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from unskew import seeds
from unskew.arrays import Array
from unskew.errors import InputError

if TYPE_CHECKING:
    from unskew.data.columns import Columns

Kind = Literal["image", "series", "spectrogram", "vector"]
Pixels = Literal["standard", "unit"]
CLIENT = "client"
"""The column that says whose a sample is, where files and folders tell it."""

Numbers = TypeVar("Numbers")
"""A numpy array or a torch tensor: what goes in comes out."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """One pool of samples that every client's list points into.

    ``x`` keeps its compact type (images stay uint8, channel first); ``mean`` and ``std`` are per channel and
    in the units of ``x``, and are applied on use. ``columns`` holds one value a training sample that clients
    may be split by, such as the person or the recording. ``source`` says which files it came from, and ``table``
    what became of the columns of a table; ``resized`` pictures were scaled to one size.
    ``columns_test`` are columns of the test samples, where they are known. ``brightest`` is the value of a white pixel
    in images of 8-bit pixels.
    """

    name: str
    x: Array
    y: Array
    x_test: Array
    y_test: Array
    labels: tuple[str, ...]
    kind: Kind = "image"
    columns: Mapping[str, Array] = field(default_factory=dict)
    mean: Array = field(default_factory=lambda: np.zeros(1, np.float32))
    std: Array = field(default_factory=lambda: np.ones(1, np.float32))
    source: str = ""
    table: Columns | None = None
    resized: bool = False
    columns_test: Mapping[str, Array] = field(default_factory=dict)
    brightest: int = 255

    def __post_init__(self) -> None:
        if len(set(self.labels)) < len(self.labels):
            twice = Counter(self.labels).most_common(1)[0][0]
            raise InputError(f"{self.name} has two classes called {twice!r}; give every class its own name")
        object.__setattr__(self, "y", check_labels(self.y, len(self.labels), f"the labels of {self.name}"))
        object.__setattr__(
            self, "y_test", check_labels(self.y_test, len(self.labels), f"the test labels of {self.name}")
        )
        for what, x, y in (("training", self.x, self.y), ("test", self.x_test, self.y_test)):
            if len(x) != len(y):
                raise InputError(f"{self.name} has {len(x)} {what} samples but {len(y)} {what} labels")
        for column, values in self.columns.items():
            if len(values) != len(self.y):
                raise InputError(
                    f"column {column!r} of {self.name} has {len(values)} values for {len(self.y)} samples"
                )

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return len(self.labels)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one sample, channel first."""
        return tuple(self.x.shape[1:])

    @property
    def bits(self) -> int:
        """What one sample takes to send, its label too: 784 x 8 + 4 for MNIST (DACA, section IV-A)."""
        return int(np.prod(self.shape)) * self.x.dtype.itemsize * 8 + max(1, (self.classes - 1).bit_length())

    def normalise(self, x: Numbers) -> Numbers:
        """Samples, or means of some, as a model sees them: (x - mean) / std, channel by channel."""
        return normalise(x, *self.scale_like(x))  # type: ignore[no-any-return]

    def restore(self, normalised: Numbers) -> Numbers:
        """The way back: in the units of ``x`` again."""
        mean, std = self.scale_like(normalised)
        return normalised * std + mean  # type: ignore[no-any-return]

    def scale_like(self, x: Any) -> tuple[Any, Any]:
        """``mean`` and ``std`` in the type and on the device of ``x``, one value per channel, ready to be broadcast."""
        shape = (-1, *[1] * (len(self.shape) - 1))
        if isinstance(x, np.ndarray):
            return tuple(np.asarray(v, x.dtype).reshape(shape) for v in (self.mean, self.std))  # type: ignore[return-value]
        import torch  # what is no array is a tensor, so torch is there already

        return tuple(torch.tensor(v).to(x).reshape(shape) for v in (self.mean, self.std))  # type: ignore[return-value]

    def with_pixels(self, seen: Pixels) -> Dataset:
        """This data set with images as a model is to see them: by channel at mean 0 and spread 1, or from 0 to 1."""
        if seen == "standard":
            return self
        if self.kind != "image" or self.x.dtype != np.uint8:
            held = "8-bit" if self.x.dtype == np.uint8 else str(self.x.dtype)
            raise InputError(
                f"pixels = unit divides images of 8-bit pixels by {self.brightest}, and {self.name} has samples of "
                f"kind {self.kind} in {held} numbers; leave pixels out"
            )
        nothing, whole = np.zeros_like(self.mean), np.full_like(self.std, self.brightest)
        seen_so = np.array_equal(self.mean, nothing) and np.array_equal(self.std, whole)
        return self if seen_so else replace(self, mean=nothing, std=whole)

    def __len__(self) -> int:
        return len(self.y)

    def __repr__(self) -> str:
        sizes = f"{len(self)} train, {len(self.y_test)} test"
        return f"Dataset({self.name!r}, {sizes}, {'x'.join(map(str, self.shape))}, {self.classes} classes)"


def normalise(x: Any, mean: Any, std: Any) -> Any:
    """What every model is trained on and asked with: arrays or tensors, all of one type."""
    return (x - mean) / std


def check_labels(y: Sequence[int] | Array, classes: int | None, where: str) -> Array:
    """Labels as int64 in 0..classes-1, or one sentence about the first that is not."""
    labels = np.asarray(y)
    if labels.ndim == 0 and labels.dtype.kind == "U":
        word = repr(labels.item())
        raise InputError(f"{where} must be whole numbers, not the word {word}; give unskew.load({word})")
    if labels.ndim != 1:
        raise InputError(f"{where} must be one whole number a sample, not an array of shape {labels.shape}")
    if (large := too_large_label(labels)).any():
        place = int(np.flatnonzero(large)[0])
        raise InputError(f"{where} must be places among the classes, but sample {place} has {labels[place]}")
    if labels.dtype.kind == "f" and np.all(np.isfinite(labels)) and np.all(labels == np.floor(labels)):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iub":
        raise InputError(f"{where} must be whole numbers, not {labels.dtype}")
    labels = labels.astype(np.int64, copy=False)
    if labels.size and labels.min() < 0:
        raise InputError(
            f"{where} must not be negative, but sample {int(labels.argmin())} has {labels.min()}"
        )
    if classes is not None and labels.size and labels.max() >= classes:
        raise InputError(
            f"{where} go from 0 to {classes - 1}, but sample {int(labels.argmax())} has {labels.max()}"
        )
    return labels


def too_large_label(labels: Array) -> Array:
    """Which numbers, as int64, would be another or the same as their neighbours: two classes in one."""
    if labels.dtype.kind == "f":
        return np.asarray(np.isfinite(labels) & (np.abs(labels) >= 2**53))
    return np.asarray(labels >= 2**63 if labels.dtype.kind == "u" else np.zeros(labels.shape, bool))


def channel_moments(x: Array) -> tuple[Array, Array]:
    """Mean and standard deviation of each channel, in the units of ``x``; a constant channel keeps std 1."""
    axes = (0, *range(2, x.ndim))
    mean = x.mean(axis=axes, dtype=np.float64)
    # E[x^2] - E[x]^2 in blocks: a float64 copy of 50,000 colour images would take a gigabyte
    square = np.zeros_like(mean)
    for start in range(0, len(x), 4096):
        block = x[start : start + 4096].astype(np.float64)
        square += np.square(block).sum(axis=axes)
    per_channel = x.size / max(1, x.shape[1]) if x.ndim > 1 else x.size
    std = np.sqrt(np.maximum(square / max(1, per_channel) - mean**2, 0))
    return mean.astype(np.float32), np.where(std > 1e-8, std, 1).astype(np.float32)


def hold_out(y: Array, share: float, seed: int) -> Array:
    """Which samples to test on: the same share of each class, drawn by the seed, as a mask over ``y``.

    A class always keeps a sample to train on, and gives one to the test set if it has two.
    """
    if not 0 <= share < 1:
        raise InputError(f"the share held out for testing must be at least 0 and below 1, not {share}")
    mask = np.zeros(len(y), bool)
    if share == 0:
        return mask
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        wanted = min(max(int(len(members) * share + 0.5), 1), len(members) - 1)
        mask[seeds.generator(seed, "hold out", int(label)).permutation(members)[:wanted]] = True
    return mask

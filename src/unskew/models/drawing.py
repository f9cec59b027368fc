"""Layers as they are drawn, without torch: what each makes of a sample's shape, and how many numbers it has.

A model of the library is drawn once, of these; ``unskew.models.made`` makes torch's modules of the drawing. So what a
model costs is told at once, where torch alone would take a second to load. Layers have torch's names and arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from unskew.models.cuts import Cuttable

Shape = tuple[int, ...]
"""Of one sample, or of what a layer makes of it."""

Side = int | tuple[int, int]


def _pair(side: Side) -> tuple[int, int]:
    return side if isinstance(side, tuple) else (side, side)


class Layer:
    """One layer, or several drawn as one (``inside``, by the names that their weights have)."""

    @property
    def inside(self) -> Mapping[str, Layer]:
        return {}

    @property
    def along(self) -> Iterator[Layer]:
        """Those inside that a sample goes through one after the other."""
        return iter(self.inside.values())

    def shaped(self, given: Shape) -> Shape:
        """The shape of what comes out."""
        for layer in self.along:
            given = layer.shaped(given)
        return given

    @property
    def weights(self) -> dict[str, Shape]:
        """What training changes: the shape of each tensor, by the name that it has once the model is made."""
        return {f"{at}.{name}": s for at, layer in self.inside.items() for name, s in layer.weights.items()}

    @property
    def statistics(self) -> dict[str, Shape]:
        """What is measured in training, likewise."""
        return {
            f"{at}.{name}": s for at, layer in self.inside.items() for name, s in layer.statistics.items()
        }

    @property
    def parameters(self) -> int:
        """How many numbers training changes."""
        return sum(map(math.prod, self.weights.values()))

    def multiply_adds(self, given: Shape) -> int:
        """Of dense layers and filters, in one forward pass of one sample."""
        total, at = 0, given
        for layer in self.along:
            total += layer.multiply_adds(at)
            at = layer.shaped(at)
        return total

    def widest(self, given: Shape) -> int:
        """The most numbers that a sample is on its way through."""
        most = math.prod(given)
        for layer in self.along:
            most = max(most, layer.widest(given))
            given = layer.shaped(given)
        return max(most, math.prod(self.shaped(given) if not self.inside else given))

    def all(self) -> Iterator[Layer]:
        """The layer and all that it is made of."""
        yield self
        for layer in self.inside.values():
            yield from layer.all()


@dataclass(frozen=True)
class Kaiming:
    """Filters start normal, biases at 0 (He et al., ICCV 2015, section 2.2: by what goes in, or out)."""

    slope: float = 0.0
    fan: Literal["fan_in", "fan_out"] = "fan_in"


@dataclass(frozen=True)
class Conv2d(Layer):
    """A convolution; ``start`` says how its filters start where that is not torch's way."""

    inputs: int
    outputs: int
    side: Side
    stride: Side = 1
    padding: Side = 0
    groups: int = 1
    bias: bool = True
    start: Kaiming | None = None

    @property
    def _fan(self) -> int:
        return self.inputs // self.groups * math.prod(_pair(self.side))

    def shaped(self, given: Shape) -> Shape:
        walks = zip(given[1:], *map(_pair, (self.side, self.stride, self.padding)), strict=True)
        return self.outputs, *((size + 2 * pad - side) // stride + 1 for size, side, stride, pad in walks)

    @property
    def weights(self) -> dict[str, Shape]:
        bias: dict[str, Shape] = {"bias": (self.outputs,)} if self.bias else {}
        return {"weight": (self.outputs, self.inputs // self.groups, *_pair(self.side)), **bias}

    def multiply_adds(self, given: Shape) -> int:
        return math.prod(self.shaped(given)) * self._fan


@dataclass(frozen=True)
class Linear(Layer):
    """A dense layer."""

    inputs: int
    outputs: int

    def shaped(self, given: Shape) -> Shape:
        return *given[:-1], self.outputs

    @property
    def weights(self) -> dict[str, Shape]:
        return {"weight": (self.outputs, self.inputs), "bias": (self.outputs,)}

    def multiply_adds(self, given: Shape) -> int:
        return math.prod(self.shaped(given)) * self.inputs


@dataclass(frozen=True)
class MaxPool2d(Layer):
    """The largest of each patch; patches lie side by side."""

    side: Side

    def shaped(self, given: Shape) -> Shape:
        return given[0], *(size // side for size, side in zip(given[1:], _pair(self.side), strict=True))


@dataclass(frozen=True)
class AdaptiveAvgPool2d(Layer):
    """Means over so many patches."""

    side: Side

    def shaped(self, given: Shape) -> Shape:
        return given[0], *_pair(self.side)


@dataclass(frozen=True)
class Flatten(Layer):
    def shaped(self, given: Shape) -> Shape:
        return (math.prod(given),)


@dataclass(frozen=True)
class _Elementwise(Layer):
    """What changes numbers and no shape."""

    def shaped(self, given: Shape) -> Shape:
        return given


@dataclass(frozen=True)
class ReLU(_Elementwise):
    pass


@dataclass(frozen=True)
class Softmax(_Elementwise):
    """Over the classes."""


@dataclass(frozen=True)
class Dropout(_Elementwise):
    """``unskew.models.layers.Dropout``."""

    p: float = 0.5
    channels: bool = False


@dataclass(frozen=True)
class BatchNorm(_Elementwise):
    """``unskew.models.layers.BatchNorm``."""

    features: int

    @property
    def weights(self) -> dict[str, Shape]:
        return {"weight": (self.features,), "bias": (self.features,)}

    @property
    def statistics(self) -> dict[str, Shape]:
        return {"running_mean": (self.features,), "running_var": (self.features,)}


class Sequential(Layer):
    """One layer after the other."""

    def __init__(self, *layers: Layer) -> None:
        self.layers = layers

    @property
    def inside(self) -> Mapping[str, Layer]:
        return {str(at): layer for at, layer in enumerate(self.layers)}


@dataclass(frozen=True)
class Residual(Layer):
    """Two layers around which the input is passed on."""

    conv1: Layer
    conv2: Layer

    @property
    def inside(self) -> Mapping[str, Layer]:
        return {"conv1": self.conv1, "conv2": self.conv2}


@dataclass(frozen=True)
class InvertedResidual(Layer):
    """Expand, filter each channel by itself, project; with ReLU between, and the input added where it is ``passes``.

    ``shortcut`` is what the input goes through on its way around, where it does not fit as it is.
    """

    expand: Layer
    filter: Layer
    project: Layer
    passes: bool
    shortcut: Layer | None = None

    way: ClassVar[tuple[str, ...]] = ("expand", "filter", "project")

    @property
    def inside(self) -> Mapping[str, Layer]:
        around = {} if self.shortcut is None else {"shortcut": self.shortcut}
        return {name: getattr(self, name) for name in self.way} | around

    @property
    def along(self) -> Iterator[Layer]:
        return (self.inside[name] for name in self.way)

    def multiply_adds(self, given: Shape) -> int:
        around = 0 if self.shortcut is None else self.shortcut.multiply_adds(given)
        return super().multiply_adds(given) + around


class Stages(Layer, Cuttable):
    """Layers by name, one after the other; a cut may follow each of them but the classifier's.

    ``tail`` says how many of the last stages make up the classifier.
    """

    def __init__(self, stages: Mapping[str, Layer], tail: int = 1) -> None:
        self.stages, self.tail = dict(stages), tail
        self.layers = tuple(stages)[:-tail]  # after which it can be cut

    @property
    def inside(self) -> Mapping[str, Layer]:
        return self.stages

"""What is known of a model before a run, whether it is made or only drawn: what parts refuse a model by."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from unskew.models import drawing
from unskew.models.cuts import Cuttable


@dataclass(frozen=True)
class Outline:
    """A model as checks see it."""

    cuts: Cuttable
    dense: tuple[int, ...]  # how many numbers go into each dense layer
    has_statistics: bool  # such as batch norm's running averages
    count_features: Callable[[], int]  # of one sample, at the last layer


def outline_of(drawn: drawing.Stages, shape: drawing.Shape) -> Outline:
    """The outline of a drawn model, for samples of this shape."""

    def count_features() -> int:
        at = shape
        for name in drawn.layers[: drawn.place(drawn.last_layer)]:
            at = drawn.stages[name].shaped(at)
        return math.prod(at)

    every = list(drawn.all())
    return Outline(
        drawn,
        tuple(layer.inputs for layer in every if isinstance(layer, drawing.Linear)),
        any(isinstance(layer, drawing.BatchNorm) for layer in every),
        count_features,
    )

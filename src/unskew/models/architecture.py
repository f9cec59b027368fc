"""What a model of the library says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.errors import InputError
from unskew.models.drawing import Stages


@dataclass(frozen=True)
class Architecture:
    """Hyper-parameters of a model with a name; ``draw`` fits it to the data.

    ``native`` is the shape it was designed for and ``classes`` how many of them, ``size`` its number of parameters
    there.
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    native: ClassVar[tuple[int, ...]]
    classes: ClassVar[int] = 10
    size: ClassVar[int]

    def draw(self, shape: tuple[int, ...], classes: int) -> Stages:
        raise TypeError(f"{self.name} does not say what it is made of: define draw()")

    def image(self, shape: tuple[int, ...], least: int) -> tuple[int, int, int]:
        """Channels, height and width of an image of at least ``least`` x ``least``, or one sentence."""
        if len(shape) != 3:
            given = "x".join(map(str, shape))
            raise InputError(
                f"{self.name} takes images (channels x height x width), not samples of shape {given}; use "
                "mlp or linear, or reshape the data"
            )
        channels, height, width = shape
        if min(height, width) < least:
            raise InputError(
                f"{self.name} needs images of at least {least}x{least}, not {height}x{width}; use small_cnn, "
                "mlp or linear"
            )
        return channels, height, width

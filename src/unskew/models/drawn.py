"""From a name to the drawing of a model that fits the data: all that refuses a model of the library, without torch."""

from __future__ import annotations

from typing import Any

from unskew import expression
from unskew.errors import InputError
from unskew.models.architecture import Architecture
from unskew.models.drawing import Shape, Stages
from unskew.models.size import refuse_too_large
from unskew.models.zoo import MODELS


def named(model: Any) -> Any:
    """The architecture that an expression names; anything else as it is."""
    if isinstance(model, str) and ":" not in model.partition("(")[0]:
        return expression.build(model, MODELS, "model")
    return model


def check_classes(classes: int) -> None:
    if classes < 1:
        raise InputError(f"a model needs at least 1 class to tell, not {classes}; give the number of classes")


def drawn_for(model: Architecture, shape: Shape, classes: int) -> Stages:
    """The model drawn for samples of this shape; one that does not take them, or memory does not hold, is refused."""
    expression.refuse_absurd(model)
    drawn = model.draw(shape, classes)
    refuse_too_large(model, drawn, shape, classes)
    return drawn

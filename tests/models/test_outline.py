"""What checks see of a model is the same, whether it is drawn or made."""

from __future__ import annotations

import pytest

from unskew.core.net import Net
from unskew.errors import InputError
from unskew.models import MODELS, build
from unskew.models.drawn import drawn_for
from unskew.models.outline import Outline, outline_of

SHAPES = (
    *((1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 5, 40), (3, 15, 15), (1, 1, 1)),
    *((9, 128), (1, 128, 9), (1, 41, 90), (50,)),
)


def told(outline: Outline) -> tuple[object, ...]:
    return outline.cuts.layers, outline.dense, outline.has_statistics, outline.count_features()


@pytest.mark.parametrize("name", MODELS)
def test_a_model_that_can_be_drawn_can_be_made(name: str) -> None:
    """So a rehearsal, which draws, refuses all that a run would, which makes; and both have one outline."""
    drawable = []
    for shape in SHAPES:
        try:
            drawn = outline_of(drawn_for(MODELS[name](), shape, 3), shape)
        except InputError:
            with pytest.raises(InputError):
                build(name, shape, 3)
        else:
            drawable.append(shape)
            assert told(drawn) == told(Net(build(name, shape, 3)).outline(shape))
    assert drawable

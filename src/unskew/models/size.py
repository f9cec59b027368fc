"""How large a model would be, before it is made."""

from __future__ import annotations

import dataclasses

from unskew.machine.memory import refuse_larger
from unskew.models.architecture import Architecture
from unskew.models.drawing import Shape, Stages


def memory_of(drawn: Stages, shape: Shape) -> int:
    """Bytes that its weights and their gradients take, and two samples on their way: less than a run takes."""
    return 4 * 2 * (drawn.parameters + drawn.widest(shape))


def refuse_too_large(model: Architecture, drawn: Stages, shape: Shape, classes: int) -> None:
    """Refuse a model that does not fit into memory."""
    hidden = any(field.name == "hidden" for field in dataclasses.fields(model))
    refuse_larger(
        memory_of(drawn, shape),
        f"{model.name} for samples of shape {'x'.join(map(str, shape))} and {classes:,} classes, with "
        f"{drawn.parameters:,} weights,",
        f"take{' fewer hidden units,' if hidden else ''} smaller samples or fewer classes",
    )

"""How large a model would be, before it is made: torch's meta device has shapes but no numbers."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unskew.errors import InputError
from unskew.machine.memory import refuse_larger
from unskew.models.architecture import Architecture
from unskew.models.layers import number_dropouts
from unskew.models.split import SplitModel
from unskew.models.trial import say

SMALL = 10**7
"""Weights of a layer that nobody needs to ask about; asking takes a second the first time."""

OVERFLOWS = (RuntimeError, TypeError, ValueError, OverflowError, MemoryError)
"""What torch raises for sizes that are no 64-bit numbers."""


@dataclass(frozen=True)
class Size:
    """A model without its numbers."""

    net: SplitModel
    weights: int
    widest: int  # the largest activation of two samples, the samples themselves included


def memory_of(size: Size) -> int:
    """Bytes that its weights and their gradients take, and two samples on their way: less than a run takes."""
    return 4 * (2 * size.weights + size.widest)


def is_small(model: Architecture, shape: tuple[int, ...], classes: int) -> bool:
    """Whether no layer between any two of its sizes could be a large one."""
    sizes = [math.prod(shape), classes]
    for field in dataclasses.fields(model):
        value = getattr(model, field.name)
        sizes += [v for v in (value if isinstance(value, tuple) else (value,)) if isinstance(v, int)]
    return math.prod(sorted(sizes)[-2:]) <= SMALL


def size_of(model: Architecture, shape: tuple[int, ...], classes: int) -> Size:
    """What the model is made of, for samples of this shape; one sentence where that is beyond any machine."""
    called = f"{model.name} for samples of shape {say(shape)} and {classes:,} classes"
    widest = 2 * math.prod(shape)

    def seen(module: nn.Module, given: object, output: object) -> None:
        nonlocal widest
        widest = max(widest, output.numel() if isinstance(output, Tensor) else 0)

    with torch.random.fork_rng(devices=[]), torch.device("meta"), torch.no_grad():
        try:
            net = model.make(shape, classes)
        except InputError:
            raise
        except OVERFLOWS:
            raise InputError(f"{called} is larger than any memory; {_instead(model)}") from None
        hooks = [module.register_forward_hook(seen) for module in net.modules()]
        try:
            net.eval()(torch.empty(2, *shape))
        except Exception:  # what it cannot take is said by the trial that follows
            pass
        finally:
            for hook in hooks:
                hook.remove()
    return Size(number_dropouts(net), sum(p.numel() for p in net.parameters()), widest)


def refuse_too_large(model: Architecture, shape: tuple[int, ...], classes: int) -> None:
    """Refuse a model that does not fit into memory."""
    if is_small(model, shape, classes):
        return
    size = size_of(model, shape, classes)
    refuse_larger(
        memory_of(size),
        f"{model.name} for samples of shape {say(shape)} and {classes:,} classes, with {size.weights:,} weights,",
        _instead(model),
    )


def _instead(model: Architecture) -> str:
    own = " fewer hidden units," if any(f.name == "hidden" for f in dataclasses.fields(model)) else ""
    return f"take{own} smaller samples or fewer classes"

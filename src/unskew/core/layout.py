"""How numbers lie in memory."""

from __future__ import annotations

from collections.abc import Sequence


def fills_memory(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether every number has a place of its own, without gaps: torch keeps such a layout, and no other.

    A sum's gradient is one number seen many times, and some columns of a larger tensor have gaps. Torch can be
    asked, but loads a library of algebra first, for half a second.
    """
    place = 1
    for stride, size in sorted(
        (stride, size) for size, stride in zip(shape, strides, strict=True) if size > 1
    ):
        if stride != place:
            return False
        place *= size
    return True

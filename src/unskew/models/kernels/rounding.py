"""Filters rounded once a step: a kernel that rounds what it reads does so for every tile, and a third of a
convolution's time went into that."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

_rounded: dict[int, Tensor] = {}
"""Copies that stand for weights at the moment, by where those lie in memory."""


class RoundedCopies:
    """Room for copies of some stacked weights in bf16, which stays where it is: captured steps write and read it."""

    def __init__(self) -> None:
        self.room: dict[str, Tensor] = {}

    @contextlib.contextmanager
    def standing_for(self, weights: Mapping[str, Tensor], of: Mapping[str, Tensor]) -> Iterator[None]:
        """Round all of these, the first rows ``of`` others, by one kernel; convolutions inside take the copies."""
        here = {name: self._room_for(name, of[name])[: len(weight)] for name, weight in weights.items()}
        with torch.no_grad():
            if here:
                torch._foreach_copy_([*here.values()], [*weights.values()])
        try:
            _rounded.update((weights[name].data_ptr(), copy) for name, copy in here.items())
            yield
        finally:
            for weight in weights.values():
                _rounded.pop(weight.data_ptr(), None)

    def _room_for(self, name: str, weight: Tensor) -> Tensor:
        """Laid out as the weight of all clients is. It is never made anew for more clients: captured steps of fewer
        would go on writing where it was."""
        room = self.room.get(name)
        if room is None or room.stride() != weight.stride():
            room = self.room[name] = torch.empty_like(weight, dtype=torch.bfloat16)
        return room


def rounded(weight: Tensor, kind: torch.dtype) -> Tensor:
    """A weight in the type of the images that it meets."""
    if weight.dtype == kind:
        return weight
    copy = _rounded.get(weight.data_ptr())
    if copy is None or copy.dtype != kind or len(copy) != len(weight) or copy.numel() != weight.numel():
        return weight.to(kind)
    # a classifier's are looked at as filters of one place
    return copy.as_strided(weight.shape, weight.stride())

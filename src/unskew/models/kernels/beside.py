"""What a backward pass need not wait for, on a stream of its own: the gradients of filters."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor


class _Beside:
    """Gradients of filters on a stream of their own, while the rest of a backward pass goes on."""

    on = False
    streams: ClassVar[dict[torch.device, torch.cuda.Stream]] = {}
    held: ClassVar[list[Tensor]] = []  # what is still being read: nobody may be given its memory


@contextlib.contextmanager
def filters_beside() -> Iterator[None]:
    """Around a backward pass in which no weight is used twice: nobody reads its gradient before the end."""
    _Beside.on = True  # for all threads: torch runs a GPU's backward pass in one of its own
    try:
        yield
    finally:
        _Beside.on = False
        try:
            for device, stream in _Beside.streams.items():
                torch.cuda.current_stream(device).wait_stream(stream)
        finally:  # also where a capture broke: what is held here would stay for good
            _Beside.held.clear()
            _Beside.streams.clear()


@contextlib.contextmanager
def aside(*used: Tensor) -> Iterator[None]:
    """What is launched inside goes beside the rest, where that was asked for."""
    if not (_Beside.on and used[0].is_cuda):
        yield
        return
    device = used[0].device
    stream = _Beside.streams[device] = _stream(device)
    stream.wait_stream(torch.cuda.current_stream(device))
    _Beside.held.extend(used)
    with torch.cuda.stream(stream):
        yield


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

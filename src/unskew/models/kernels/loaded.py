"""The kernels, loaded when one is first launched: most machines have no Triton."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any


def programs() -> Any:
    return _Standing.instead or _loaded()


@functools.cache
def _loaded() -> Any:
    return importlib.import_module("unskew.models.kernels.programs")


@functools.cache
def step_programs() -> Any:
    return importlib.import_module("unskew.models.kernels.step_programs")


class _Standing:
    instead: Any = None  # for all threads: torch runs a GPU's backward pass in one of its own


@contextlib.contextmanager
def launched_by(other: Any) -> Iterator[None]:
    """Inside, whoever asks for the kernels is given what ``other`` makes of them."""
    _Standing.instead = other(_loaded())
    try:
        yield
    finally:
        _Standing.instead = None

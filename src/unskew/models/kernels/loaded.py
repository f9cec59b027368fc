"""The kernels, loaded when one is first launched: most machines have no Triton."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def programs() -> Any:
    return importlib.import_module("unskew.models.kernels.programs")


@functools.cache
def step_programs() -> Any:
    return importlib.import_module("unskew.models.kernels.step_programs")

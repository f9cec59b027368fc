"""Whether there are kernels, and where they are: Triton is loaded when one is first launched."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any


@functools.cache
def has_kernels(device: str) -> bool:
    """Whether the kernels run on such a device: Triton's compiler makes them, which torch brings along with CUDA.

    Its interpreter (``TRITON_INTERPRET=1``) runs them on a CPU, slowly: for tests, which ask for them.
    """
    return device == "cuda" and importlib.util.find_spec("triton") is not None


@functools.cache
def programs() -> Any:
    return importlib.import_module("unskew.models.kernels.programs")

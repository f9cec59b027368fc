"""Whether this machine has a GPU that torch can use."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from unskew.later import torch


def gpu_there() -> bool:
    """Whether there is one; where no driver is installed that is known without torch, which takes a second to load."""
    if "torch" not in sys.modules and not _driver_there():
        return False
    return torch.cuda.is_available()


def _driver_there() -> bool:
    """Whether a driver is installed that torch could reach a GPU by: NVIDIA's, or AMD's."""
    if Path("/dev/kfd").exists():
        return True
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True

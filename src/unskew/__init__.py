"""Federated learning that works when clients' data is skewed and scarce."""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

logging.getLogger("unskew").addHandler(logging.NullHandler())  # who listens decides what is shown, and where

if TYPE_CHECKING:
    from unskew.checks import check_method as check_method
    from unskew.checks import check_part as check_part
    from unskew.data import Dataset as Dataset
    from unskew.data import Federation as Federation
    from unskew.data import from_arrays as from_arrays
    from unskew.data import from_frame as from_frame
    from unskew.data.load import load as load
    from unskew.data.partition import partition as partition
    from unskew.distance_correlation import distance_correlation as distance_correlation
    from unskew.errors import InputError as InputError
    from unskew.method import Method as Method
    from unskew.run import Run as Run
    from unskew.run import resume as resume
    from unskew.run import run as run
    from unskew.saved import load_run as load_run
    from unskew.settings import Settings as Settings
    from unskew.spec import Spec as Spec
    from unskew.sweep import sweep as sweep

_PUBLIC = {
    "check_method": "checks",
    "check_part": "checks",
    "Dataset": "data",
    "Federation": "data",
    "distance_correlation": "distance_correlation",
    "from_arrays": "data",
    "from_frame": "data",
    "load": "data.load",
    "partition": "data.partition",
    "InputError": "errors",
    "Method": "method",
    "Run": "run",
    "resume": "run",
    "run": "run",
    "load_run": "saved",
    "Settings": "settings",
    "Spec": "spec",
    "sweep": "sweep",
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used: torch takes a second to load, and ``--help`` needs none."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'unskew' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"unskew.{_PUBLIC[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """What is public, used already or not, and not what this file imports."""
    return sorted({*_PUBLIC, *(name for name in globals() if name.startswith("__"))})


class _Package(ModuleType):
    """Keeps ``unskew.run`` the function: loading the file of that name would put the module in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

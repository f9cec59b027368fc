"""torch, loaded by the first line that computes with it: it takes a second, and to read or refuse a method takes none.

    from unskew.later import torch

A module that does so can be imported without torch. With the first use, ``torch`` becomes torch itself in every such
module, so that from then on nothing lies between. Types are imported for the type checker alone (``TYPE_CHECKING``).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any


class _Later(ModuleType):
    """Stands for a module until something of it is asked for."""

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        loaded = importlib.import_module(self.__name__)
        for called, module in list(sys.modules.items()):
            if called.partition(".")[0] == "unskew" and vars(module).get(loaded.__name__) is self:
                setattr(module, loaded.__name__, loaded)
        return getattr(loaded, name)


if TYPE_CHECKING:
    import torch as torch
else:
    torch = _Later("torch")

"""What is loaded when it is first used: torch, and a package's public names.

torch takes a second, and to read or refuse a method takes none of it:

    from unskew.later import torch

A module that does so can be imported without torch. With the first use, ``torch`` becomes torch itself in every such
module, so that from then on nothing lies between. Types are imported for the type checker alone (``TYPE_CHECKING``).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from unskew.garbage import garbage_put_off


class _Later(ModuleType):
    """Stands for a module until something of it is asked for."""

    def __reduce__(self) -> Any:
        return importlib.import_module, (self.__name__,)

    def __getattr__(self, name: str) -> Any:
        loaded = load(self.__name__)
        for called, module in list(sys.modules.items()):
            if called.partition(".")[0] == "unskew" and vars(module).get(loaded.__name__) is self:
                setattr(module, loaded.__name__, loaded)
        return getattr(loaded, name)


def load(name: str) -> ModuleType:
    """Import a module that brings hundreds along: torch takes a tenth less while nobody looks for garbage."""
    with garbage_put_off():
        return importlib.import_module(name)


def looks_up(package: str, public: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose public names are imported when they are first asked for.

    ``public`` says in which module below the package each is.
    """

    def look_up(name: str) -> Any:
        if name not in public:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(load(f"{package}.{public[name]}"), name)
        setattr(sys.modules[package], name, found)  # so that it is asked for once
        return found

    return look_up


if TYPE_CHECKING:
    import torch as torch
else:
    torch = _Later("torch")

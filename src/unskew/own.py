"""What a user wrote: a class or function of their own, by ``package.module:name``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from unskew.errors import InputError


def imported(path: str, kind: str) -> Any:
    """The object that ``package.module:name`` names; ``kind`` says what it is for in complaints."""
    module_name, _, name = path.partition(":")
    try:
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as missing:
            here = str(Path.cwd())
            if missing.name != module_name.partition(".")[0] or here in sys.path:
                raise
            # an installed command does not look in the current folder; kept for worker processes
            sys.path.insert(0, here)
            module = importlib.import_module(module_name)
    except Exception as error:  # the import runs the user's code
        raise InputError(
            f"cannot import {module_name!r} for the {kind} {path} ({type(error).__name__}: {error}); write "
            "package.module:Class, as Python would import it from here"
        ) from error
    if not hasattr(module, name):
        raise InputError(f"there is no {name or 'name'!r} in {module_name!r}; write package.module:Class")
    return getattr(module, name)

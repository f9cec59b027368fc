"""Objects by name, ``package.module:name``: what a user wrote, and what a higher layer draws of a result."""

from __future__ import annotations

import difflib
import importlib
import sys
from pathlib import Path
from typing import Any

from unskew.errors import InputError


def import_object(path: str, kind: str) -> Any:
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
        if module_name.endswith(".py") or "/" in module_name:
            stem = Path(module_name).stem
            raise InputError(
                f"{path} names a file, and a {kind} is named as Python imports it: write {stem}:{name} in the folder "
                f"of {stem}.py, or with that folder on PYTHONPATH"
            ) from None
        raise InputError(
            f"cannot import {module_name!r} for the {kind} {path} ({type(error).__name__}: {error}); write "
            "package.module:Class, as Python would import it from here"
        ) from error
    if not hasattr(module, name):
        near = difflib.get_close_matches(name, [n for n in vars(module) if not n.startswith("_")], n=1)
        hint = f"did you mean {module_name}:{near[0]}?" if near else "write package.module:Class"
        raise InputError(f"there is no {name or 'name'!r} in {module_name!r}; {hint}")
    return getattr(module, name)


def drawing_of(path: str) -> Any:
    """A function of the layer ``unskew.report``, by name: a result draws itself, and its layer imports none of it.

    Imports point down; this is the one way up, taken when somebody asks for the drawing.
    """
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)

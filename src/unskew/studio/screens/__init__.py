"""The screens: one module each, found by the list below.

A screen's module has ``NAME`` (its place in addresses), ``TITLE`` (its word in the navigation; "" where it has none),
``routes(studio)`` (Starlette routes; an empty list where it has nothing to show here), and a template of the same name.
"""

from __future__ import annotations

import importlib
from types import ModuleType

SCREENS = ("runs", "run", "partition", "compare", "sites")
"""In the order of the navigation; the first is what opens."""


def load_screens() -> list[ModuleType]:
    return [importlib.import_module(f"{__name__}.{name}") for name in SCREENS]

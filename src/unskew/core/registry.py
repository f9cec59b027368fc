"""Which parts there are, by name: found in the package ``unskew.parts``, as plug-ins are.

The core imports no part. Whoever reads an expression asks here, and the parts are loaded then.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from unskew.core.slots import Part

HOME = "unskew.parts"


def parts() -> Mapping[str, type[Part]]:
    """Every part by name, slot after slot."""
    return cast("Mapping[str, type[Part]]", importlib.import_module(HOME).PARTS)


def presets() -> Mapping[str, tuple[str, str]]:
    """Sums of parts that have a name: name -> (expression, what it is)."""
    return cast("Mapping[str, tuple[str, str]]", importlib.import_module(HOME).PRESETS)

"""Whether what ``unskew[sites]`` brings is there: Flower of the version that this adapter was written for, and keys."""

from __future__ import annotations

import importlib.metadata

from unskew.errors import InputError

FLOWER = "1.41."
"""Its flags change between minor versions."""


def need_extra() -> str:
    """Flower's version; where it is missing or another, a sentence that says what to install."""
    how = 'write: pip install "unskew[sites]"'
    try:
        found = importlib.metadata.version("flwr")
        importlib.metadata.version("cryptography")
    except importlib.metadata.PackageNotFoundError as missing:
        raise InputError(f"real sites need the package {missing.name}; {how}") from None
    if not found.startswith(FLOWER):
        raise InputError(f"real sites need Flower {FLOWER}*, and {found} is installed; {how}")
    return found

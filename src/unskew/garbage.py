"""Python's look for garbage, put off."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def garbage_put_off() -> Iterator[None]:
    """Nothing is looked for meanwhile: among thousands of objects that stay, that takes as long as to make them."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()

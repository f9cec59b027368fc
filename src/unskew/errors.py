"""The one error a user should ever see: a sentence that says what is wrong, where, and what to write."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input, told in one sentence. The command line prints it and exits with code 2."""


class RunFailed(RuntimeError):
    """A run stopped for a reason outside its input, told in one sentence; its last checkpoint is whole."""


def unknown(kind: str, name: str, known: Iterable[str]) -> InputError:
    """An InputError for a name that does not exist, with the nearest ones suggested."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.5)
    if close:
        hint = f"did you mean {' or '.join(repr(c) for c in close)}?"
    else:
        hint = f"write one of {', '.join(names)}"
    return InputError(f"there is no {kind} {name!r}; {hint}")

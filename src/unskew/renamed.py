"""Names that settings had before: still understood, with a warning that says what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from unskew.errors import InputError

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Renamed(DeprecationWarning):
    """An old name was used; the sentence says the new one."""


def warn_of(old: str, new: str, stacklevel: int = 3) -> None:
    """Say that ``old`` is called ``new`` now; the warning points at whoever called our caller."""
    warnings.warn(f"{old} is now called {new}; write {new}", Renamed, stacklevel=stacklevel)


def accepts_old_names(**names: str) -> Callable[[Callable[Given, Result]], Callable[Given, Result]]:
    """Let a function take keywords by their old names too: ``accepts_old_names(data="dataset")``.

    Type checkers see the new names only, so an old one is a type error.
    """

    def decorate(function: Callable[Given, Result]) -> Callable[Given, Result]:
        @functools.wraps(function)
        def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
            for old, new in names.items():
                if old in kwargs:
                    if new in kwargs:
                        raise InputError(f"{old} and {new} are the same, {old} by its old name; keep {new}")
                    warn_of(f"{old}=", f"{new}=")
                    kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return called

    return decorate

"""Names that settings had before: still understood, with a warning that says what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from unskew.errors import InputError

Given = ParamSpec("Given")
Result = TypeVar("Result")

FLAGS = {"--data": "--data-folder", "--output": "--out", "--load": "--partition"}
"""Flags of the command line that have another name now."""


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


def with_new_flags(words: list[str], tell: Callable[[str], None]) -> list[str]:
    """A command line with its old flags by their new names; ``tell`` is given a sentence for each."""
    made: list[str] = []
    for place, word in enumerate(words):
        if word == "--":
            return made + words[place:]
        flag, equals, value = word.partition("=")
        if flag in FLAGS:
            value = value if equals else next(iter(words[place + 1 :]), "")
            if flag == "--data":
                _refuse_data_set(value)
            tell(f"{flag} is now called {FLAGS[flag]}; write {FLAGS[flag]}")
            word = FLAGS[flag] + word[len(flag) :]
        made.append(word)
    return made


def _refuse_data_set(value: Any) -> None:
    """``--data`` was a folder's flag: whoever means a data set by it would train on another, without a word."""
    from unskew.data.sources import SOURCES

    name = value.partition("(")[0].strip()
    if name in SOURCES or name.lower().endswith((".npz", ".csv", ".tsv", ".parquet", ".pq")):
        raise InputError(
            f"--data is the old name of --data-folder, where published files lie; to name {value}, the data set, "
            f"write --dataset {value} (run, sweep) or {value} alone (diagnose, partition)"
        )

"""The one error a user should ever see: a sentence that says what is wrong, where, and what to write."""

from __future__ import annotations

import difflib
import os
import pickle
import sys
import traceback
import unicodedata
from collections.abc import Iterable
from pathlib import Path

LONGEST = 1200
"""Letters that a sentence may have: what is quoted in it can be of any length."""


def one_line(text: object) -> str:
    r"""Text for people, in one line: what has no shape (a line break, a null) as \n or \x00, and cut if endless."""
    shaped = str(text)
    if not shaped.isprintable():
        shaped = "".join(
            letter if letter.isprintable() or letter == " " else _spelled(letter) for letter in shaped
        )
    if len(shaped) <= LONGEST:
        return shaped
    return f"{shaped[: LONGEST * 2 // 3]} … {shaped[-LONGEST // 3 :]}"  # what to do about it comes last


def _spelled(letter: str) -> str:
    if unicodedata.category(letter) == "Zs":
        return " "  # another width of space
    return letter.encode("unicode_escape").decode("ascii")


class InputError(ValueError):
    """Bad input, told in one sentence. The command line prints it and exits with code 2."""

    def __init__(self, sentence: object):
        super().__init__(one_line(sentence))


class RunFailed(RuntimeError):
    """A run stopped for a reason outside its input, told in one sentence; its last checkpoint is whole."""

    def __init__(self, sentence: object):
        super().__init__(one_line(sentence))


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its class where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def own_line(error: BaseException) -> str:
    """The line of a user's own file in which an error came up, as "mine.py, line 7"; nothing where it is ours.

    Own is what is neither unskew's nor installed with Python.
    """
    if (told := getattr(error, _OWN_LINE, None)) is not None:
        return str(told)  # by the process in which it came up
    others = tuple(f"{place}{os.sep}" for place in (Path(__file__).parent, sys.prefix, sys.base_prefix))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        place = frame.filename
        installed = _INSTALLED.intersection(Path(place).parts)
        if not (installed or place.startswith(("<", *others))):
            return f"{_from_here(place)}, line {frame.lineno}"
    return ""


def _from_here(place: str) -> str:
    """A path as one would write it here; in full where here is no folder any more, or another drive."""
    try:
        return os.path.relpath(place)
    except (OSError, ValueError):
        return place


def fit_to_travel(error: BaseException) -> BaseException:
    """An error that another process can raise, and that tells there where it came up: a traceback does not travel.

    One of a user's own class may not be read back there; what it says is then said by a RuntimeError.
    """
    told, note = own_line(error), "".join(traceback.format_exception(error)).rstrip()
    try:
        travels = pickle.loads(pickle.dumps(error))  # ours, made a moment ago
    except Exception:  # pickling asks anything of anybody
        travels = RuntimeError(f"{type(error).__name__}: {error}")
    setattr(travels, _OWN_LINE, told)
    travels.add_note(f"In a worker process:\n{note}")
    return travels  # type: ignore[no-any-return]


_OWN_LINE = "own_line_of_unskew"

_INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of packages, also where ``pip install --user`` has them, below a home folder."""


def unknown(kind: str, name: str, known: Iterable[str], own: str = "") -> InputError:
    """An InputError for a name that does not exist, with the nearest ones suggested; ``own``: how to name your own."""
    names = sorted(known)
    close = difflib.get_close_matches(name.lower()[:100], names, n=3, cutoff=0.5)  # endless ones take forever
    if close:
        hint = f"did you mean {' or '.join(repr(c) for c in close)}?"
    else:
        hint = f"write one of {', '.join(names)}{f', or {own}' if own else ''}"
    return InputError(f"there is no {kind} {name!r}; {hint}")

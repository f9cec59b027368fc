"""What a shell completes: names of methods, data sets, models and partitions, each with a line of what it is.

A shell asks at every Tab, so nothing is imported for an answer: the source files say what is in them. Torch alone
would take a second.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

Found = list[tuple[str, str]]
"""Names, each with what it is."""


def methods(incomplete: str) -> Found:
    """Parts and presets; of a sum such as scaffold+se its last part."""
    before, plus, last = incomplete.rpartition("+")
    taken = {part.partition("(")[0].strip() for part in before.split("+")}
    from unskew.parts.catalogue import parts, presets

    listed = {**parts(), **presets()}
    known = [(name, entry.summary) for name, entry in listed.items() if name not in taken]
    return [(before + plus + name, about) for name, about in _beginning(known, last)]


def datasets(incomplete: str) -> Found:
    """Data sets by name; where none begins so, shells go on with files."""
    return _beginning(_classes("data/sources"), incomplete)


def models(incomplete: str) -> Found:
    """Models by name."""
    return _beginning([*_classes("models"), ("auto", "A model that suits the data.")], incomplete)


def partitions(incomplete: str) -> Found:
    """Families of partitions, and the papers' own."""
    return _beginning([*_classes("data/partition"), *_keys("data/partition/presets.py")], incomplete)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """A completion from a list of words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


SETTINGS: dict[str, Callable[[str], Found]] = {
    "dataset": datasets,
    "method": methods,
    "model": models,
    "partition": partitions,
}
"""How settings are completed whose values have names."""


def _beginning(known: list[tuple[str, str]], start: str) -> Found:
    return [(name, about) for name, about in known if name.startswith(start)]


def _classes(folder: str) -> Found:
    """The classes in a folder that are told apart by a ``name``, with the first lines of their docstrings."""
    from unskew.declared import named_classes

    return [(kind.variable("name"), kind.text().partition("\n")[0]) for kind in named_classes(folder)]


def _keys(file: str) -> Found:
    """The presets of a file, with the last text that each holds: what it is."""
    from unskew.declared import dictionary

    return [(name, _last_text(value)) for name, value in dictionary(file, "PRESETS")]


def _last_text(value: ast.expr) -> str:
    texts = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return texts[-1] if texts else ""

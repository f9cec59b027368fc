"""What a shell completes: names of methods, data sets, models and partitions, each with a line of what it is.

A shell asks at every Tab, so nothing is imported for an answer: the source files say what is in them. Torch alone
would take a second.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeGuard

from unskew.core.slot_names import SLOTS

PACKAGE = Path(__file__).resolve().parents[1]

Found = list[tuple[str, str]]
"""Names, each with what it is."""


def methods(incomplete: str) -> Found:
    """Parts and presets; of a sum such as scaffold+se its last part."""
    before, plus, last = incomplete.rpartition("+")
    taken = {part.partition("(")[0].strip() for part in before.split("+")}
    known = [
        found
        for found in (*_classes(*(f"parts/{slot}" for slot in SLOTS)), *_keys("parts/presets.py"))
        if found[0] not in taken
    ]
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


def _classes(*folders: str) -> Found:
    """The classes in these folders that are told apart by a ``name``, with the first lines of their docstrings."""
    return [
        found for folder in folders for file in sorted((PACKAGE / folder).glob("*.py")) for found in _in(file)
    ]


def _in(file: Path) -> Iterator[tuple[str, str]]:
    for cls in filter(_is_class, ast.parse(file.read_text("utf-8")).body):
        for line in cls.body:
            if _assigns(line, "name") and isinstance(
                line.value, ast.Constant
            ):  # one to inherit from gives none
                yield str(line.value.value), (ast.get_docstring(cls) or "").partition("\n")[0]


def _is_class(line: ast.stmt) -> TypeGuard[ast.ClassDef]:
    return isinstance(line, ast.ClassDef)


def _assigns(line: ast.stmt, name: str) -> TypeGuard[ast.AnnAssign]:
    """Whether a line is ``name: type = value``."""
    return isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id == name


def _keys(file: str) -> Found:
    """The presets of a file, with the last text that each holds: what it is."""
    for line in ast.parse((PACKAGE / file).read_text("utf-8")).body:
        if _assigns(line, "PRESETS") and isinstance(line.value, ast.Dict):
            pairs = zip(line.value.keys, line.value.values, strict=True)
            return [
                (str(ast.literal_eval(key)), _last_text(value)) for key, value in pairs if key is not None
            ]
    return []


def _last_text(value: ast.expr) -> str:
    texts = [n.value for n in ast.walk(value) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return texts[-1] if texts else ""

"""What parts declare of themselves, read from their files without importing them: that would take torch.

A part is one file in its slot's folder, and its class says ``name`` and ``discloses``. Whoever needs the part itself
asks ``unskew.core.method``; a test sees to it that both say the same.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from unskew.core.slot_names import SLOTS

PACKAGE = Path(__file__).resolve().parents[1]


@functools.cache
def disclosures() -> Mapping[str, tuple[str, ...]]:
    """Part -> what leaves a client beyond a model update, at the part's defaults."""
    return {name: told for slot in SLOTS for name, told in _parts(PACKAGE / "parts" / slot)}


def _parts(folder: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    for file in sorted(folder.glob("*.py")):
        body = ast.parse(file.read_text("utf-8")).body
        for item in body:
            if isinstance(item, ast.ClassDef) and (named := _declared(item, "name")) is not None:
                yield str(ast.literal_eval(named)), _disclosed(item, body)


def _disclosed(kind: ast.ClassDef, body: list[ast.stmt]) -> tuple[str, ...]:
    """What a class discloses, or the first of its bases that says so."""
    told = _declared(kind, "discloses")
    if told is not None:
        return _texts(told, body)
    for base in kind.bases:
        found, there = _sought(getattr(base, "id", ""), body)
        if isinstance(found, ast.ClassDef) and (inherited := _disclosed(found, there)):
            return inherited
    return ()


def _declared(kind: ast.ClassDef, name: str) -> ast.expr | None:
    """What a class says of itself under a name."""
    for item in kind.body:
        if isinstance(item, ast.AnnAssign) and getattr(item.target, "id", None) == name:
            return item.value
    return None


def _texts(value: ast.expr, body: list[ast.stmt]) -> tuple[str, ...]:
    """A tuple of texts, written out or by names; of ``Depends(usually, rule)`` what is so at the defaults."""
    if isinstance(value, ast.Call):
        return _texts(value.args[0], body)
    if isinstance(value, ast.Name):
        found, there = _sought(value.id, body)
        return _texts(found.value, there) if isinstance(found, ast.Assign) else ()
    if isinstance(value, ast.Tuple):
        return tuple(text for item in value.elts for text in _texts(item, body))
    return (str(ast.literal_eval(value)),)


def _sought(name: str, body: list[ast.stmt]) -> tuple[ast.stmt | None, list[ast.stmt]]:
    """What defines a name, in its own file or in that of this package it is imported from; and that file."""
    for item in body:
        if isinstance(item, ast.ClassDef) and item.name == name:
            return item, body
        if isinstance(item, ast.Assign) and any(
            getattr(target, "id", None) == name for target in item.targets
        ):
            return item, body
        if isinstance(item, ast.ImportFrom) and any(alias.name == name for alias in item.names):
            file = PACKAGE.joinpath(*str(item.module).split(".")[1:]).with_suffix(".py")
            if file.is_file():
                return _sought(name, ast.parse(file.read_text("utf-8")).body)
    return None, body

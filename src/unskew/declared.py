"""What classes of this package declare of themselves, read from their files without importing them.

Parts and models take torch to import, which takes seconds; a listing, a diagnosis and a shell's completion need only
what stands in the class: its name, its docstring, its class variables and its fields. The one reader of source files.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from unskew.expression import AtMost, Usual
from unskew.garbage import garbage_put_off

PACKAGE = Path(__file__).resolve().parent

WORDS: Mapping[str, Any] = {
    **{kind.__name__: kind for kind in (bool, int, float, str, tuple, list, dict)},
    "Annotated": Annotated,
    "Any": Any,
    "AtMost": AtMost,
    "Usual": Usual,
    "ClassVar": ClassVar,
    "Literal": Literal,
    "Depends": lambda usually, rule: usually,  # what is so at the defaults; the rule needs the part itself
}
"""What declarations are written with."""


@dataclass(frozen=True)
class SourceFile:
    """What a file of this package declares."""

    body: list[ast.stmt]

    @staticmethod
    @functools.cache
    def read(path: Path) -> SourceFile:
        with garbage_put_off():
            return SourceFile(_without_code(ast.parse(path.read_text("utf-8")).body))

    def classes(self) -> Iterator[SourceClass]:
        return (SourceClass(item, self) for item in self.body if isinstance(item, ast.ClassDef))

    def imports(self) -> Iterator[tuple[str, str]]:
        """Every ``from module import name``."""
        for item in self.body:
            if isinstance(item, ast.ImportFrom):
                yield from ((str(item.module), alias.name) for alias in item.names)

    def find(self, name: str) -> tuple[ast.stmt, SourceFile] | None:
        """What defines a name, here or in the file of this package that it is imported from; and that file."""
        if (item := self._defined.get(name)) is not None:
            return item, self
        module = self._imported.get(name)
        file = None if module is None else _file_of(module)
        return None if file is None else SourceFile.read(file).find(name)

    @functools.cached_property
    def _defined(self) -> Mapping[str, ast.stmt]:
        """What the file itself defines; the first definition of a name counts."""
        found: dict[str, ast.stmt] = {}
        for item in self.body:
            for name in (getattr(item, "name", None), *_assigned(item)):
                found.setdefault(name or "", item)
        return found

    @functools.cached_property
    def _imported(self) -> Mapping[str, str]:
        """From which module of this package a name is imported."""
        own = ((name, module) for module, name in self.imports() if _file_of(module) is not None)
        return dict(reversed([*own]))

    def find_class(self, name: str) -> SourceClass | None:
        found = self.find(name)
        if found is None or not isinstance(found[0], ast.ClassDef):
            return None
        return SourceClass(found[0], found[1])

    def evaluate(self, node: ast.expr) -> Any:
        """The value of a constant expression, names of this package's own constants included."""
        if isinstance(node, ast.Constant):
            return node.value
        known: dict[str, Any] = dict(WORDS)
        for word in ast.walk(node):
            if isinstance(word, ast.Name) and word.id not in known and (found := self.find(word.id)):
                item, file = found
                if isinstance(item, ast.Assign | ast.AnnAssign) and item.value is not None:
                    known[word.id] = file.evaluate(item.value)
        return eval(compile(ast.Expression(node), "<declaration>", "eval"), {"__builtins__": {}}, known)


@dataclass(frozen=True)
class SourceClass:
    """A class of this package, as its file has it."""

    item: ast.ClassDef
    file: SourceFile

    def bases(self) -> Iterator[SourceClass]:
        """The classes of this package that it is derived from, itself first."""
        yield self
        for base in self.item.bases:
            if isinstance(base, ast.Name) and (found := self.file.find_class(base.id)) is not None:
                yield from found.bases()

    def text(self) -> str:
        """The docstring, or that of the first base that has one."""
        found = (ast.get_docstring(kind.item, clean=False) for kind in self.bases())
        return inspect.cleandoc(next((text for text in found if text), ""))

    def variable(self, name: str, otherwise: Any = None) -> Any:
        """What it says of itself under a name, or the first of its bases that says so."""
        for kind in self.bases():
            for line in kind.item.body:
                if name in _assigned(line) and (value := getattr(line, "value", None)) is not None:
                    return kind.file.evaluate(value)
        return otherwise

    def has_name(self) -> bool:
        """Whether it is told apart by a ``name`` of its own: a class to inherit from gives none."""
        lines = (line for line in self.item.body if "name" in _assigned(line))
        return any(isinstance(getattr(line, "value", None), ast.Constant) for line in lines)

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """Its fields as a dataclass has them: name -> type, default or MISSING; those of its bases come first."""
        found: dict[str, tuple[Any, Any]] = {}
        for kind in reversed(list(self.bases())):
            for line in kind.item.body:
                if isinstance(line, ast.AnnAssign) and not _of_the_class(line.annotation):
                    default = MISSING if line.value is None else kind.file.evaluate(line.value)
                    (name,) = _assigned(line)
                    found[name] = kind.file.evaluate(line.annotation), default
        return found


def named_classes(folder: str) -> list[SourceClass]:
    """The classes in a folder of this package that are told apart by a ``name``."""
    files = map(SourceFile.read, sorted((PACKAGE / folder).glob("*.py")))
    return [kind for file in files for kind in file.classes() if kind.has_name()]


def listed_classes(folder: str) -> list[SourceClass]:
    """The classes that the ``__init__.py`` of a folder lists, in its order."""
    listing = SourceFile.read(PACKAGE / folder / "__init__.py")
    found = (listing.find_class(name) for _, name in listing.imports())
    return [kind for kind in found if kind is not None]


def classes_named_in(file: str, name: str) -> list[SourceClass]:
    """The classes that stand in the value of a name in a file, in the order written."""
    source = SourceFile.read(PACKAGE / file)
    found = source.find(name)
    written = getattr(found[0], "value", None) if found else None
    words = [word.id for word in ast.walk(written) if isinstance(word, ast.Name)] if written else []
    return [kind for word in words if (kind := source.find_class(word)) is not None]


def dictionary(file: str, name: str) -> Iterator[tuple[str, ast.expr]]:
    """The keys of a dictionary that is written out in a file, with what stands behind each."""
    found = SourceFile.read(PACKAGE / file).find(name)
    written = getattr(found[0], "value", None) if found else None
    if isinstance(written, ast.Dict):
        for key, value in zip(written.keys, written.values, strict=True):
            if key is not None:
                yield str(ast.literal_eval(key)), value


def _without_code(lines: list[ast.stmt]) -> list[ast.stmt]:
    """What is declared, without functions: they are most of a file, and nobody asks for them."""
    kept = [line for line in lines if not isinstance(line, ast.FunctionDef | ast.AsyncFunctionDef)]
    for line in kept:
        if isinstance(line, ast.ClassDef):
            line.body = _without_code(line.body)
    return kept


def _assigned(line: ast.stmt) -> list[str]:
    """The names that a line gives values to."""
    targets = [line.target] if isinstance(line, ast.AnnAssign) else getattr(line, "targets", [])
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _of_the_class(annotation: ast.expr) -> bool:
    """Whether a line declares a class variable, and no field."""
    kind = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return isinstance(kind, ast.Name) and kind.id == "ClassVar"


@functools.cache
def _file_of(module: str) -> Path | None:
    """The file of a module of this package."""
    package, *inner = module.split(".")
    place = PACKAGE.joinpath(*inner)
    files = (place.with_suffix(".py"), place / "__init__.py") if package == PACKAGE.name else ()
    return next((file for file in files if file.is_file()), None)

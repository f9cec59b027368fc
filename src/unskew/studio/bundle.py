"""Modules as one plain script: a page that is opened from the disk may load scripts, but no modules.

The studio's modules keep to a few forms, which is all that is read here: ``import {a, b} from "./x.js";`` on one line,
``export const a = ...`` at the start of a line, and ``import("./x.js")`` for what is loaded later.
"""

from __future__ import annotations

import re
from collections.abc import Callable

IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w-]+)\.js";$', re.MULTILINE)
EXPORT = re.compile(r"^export const (\w+)", re.MULTILINE)
LATER = re.compile(r'\bimport\("\./([\w-]+)\.js"\)')


def bundle(entry: str, read: Callable[[str], str]) -> str:
    """The module of this name and all that it imports, those first; ``read`` gives a module's text."""
    done: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...] = ()) -> None:
        if name in done:
            return
        if name in above:
            raise ValueError(f"{name}.js imports itself by way of {' and '.join(above)}")
        text = read(f"{name}.js")
        for found in IMPORT.finditer(text):
            add(found[2], (*above, name))
        done[name] = _wrapped(name, text)

    add(entry)
    return "\n".join(done.values())


def _wrapped(name: str, text: str) -> str:
    offers = EXPORT.findall(text)
    text = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};", text)
    text = EXPORT.sub(r"const \1", text)
    text = LATER.sub(r'unskewCopy.load("static/\1.js")', text)
    return f"const {_variable(name)} = (() => {{\n{text}\nreturn {{{', '.join(offers)}}};\n}})();"


def _variable(name: str) -> str:
    return "module_" + name.replace("-", "_")

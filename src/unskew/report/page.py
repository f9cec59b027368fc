"""A report as one HTML file that needs nothing else: its charts work with no network and no server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from markupsafe import Markup

from unskew.errors import InputError
from unskew.files import write_file
from unskew.report.browser import script
from unskew.report.rendering import piece, render
from unskew.report.style import STYLE
from unskew.version import __version__


@dataclass(frozen=True)
class Heading:
    """A heading, which can be linked to where it has a name; ``level`` 2 or 3."""

    text: str
    name: str = ""
    level: int = 2

    def html(self, at: int) -> Markup:
        return piece("blocks.html", "heading")(self.text, self.name, self.level)


@dataclass(frozen=True)
class Paragraph:
    text: str
    quiet: bool = False

    def html(self, at: int) -> Markup:
        return piece("blocks.html", "paragraph")(self.text, self.quiet)


@dataclass(frozen=True)
class TableBlock:
    """Rows of text; the columns named in ``numbers`` are set to the right.

    On a phone a table of more than three columns becomes a list: every cell says which column it is of.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()

    def html(self, at: int) -> Markup:
        columns = [(title, "number" if title in self.numbers else "") for title in self.head]
        rows = [TableRow(row) for row in self.rows]
        return piece("blocks.html", "table")(columns, rows, "stack" if len(columns) > 3 else "")


@dataclass(frozen=True)
class TableRow:
    """A row of a table: texts, or pieces of HTML; ``kind`` is its style class."""

    cells: Sequence[str]
    kind: str = ""


@dataclass(frozen=True)
class Figure:
    """A finished Vega-Lite specification, drawn when the page opens; ``alt`` tells it to who cannot see it."""

    specification: dict[str, Any]
    caption: str = ""
    alt: str = ""

    def html(self, at: int) -> Markup:
        return piece("blocks.html", "chart")(at, self.specification, self.caption, self.alt)


@dataclass(frozen=True)
class Piece:
    """A block that a template made."""

    text: Markup

    def html(self, at: int) -> Markup:
        return self.text


class Block(Protocol):
    """A piece of a page. ``at`` is its place, which makes a name of its own for what needs one."""

    def html(self, at: int) -> Markup: ...


def page(title: str, blocks: Sequence[Block], subtitle: str = "", style: str = "") -> str:
    """The whole page as text; ``style`` is laid over the common one."""
    drawn = any(isinstance(block, Figure) for block in blocks)
    return render(
        "page.html",
        title=title,
        subtitle=subtitle,
        blocks=[block.html(at) for at, block in enumerate(blocks)],
        style=Markup(STYLE + style),
        script=Markup(script()) if drawn else "",
        version=__version__,
    )


def save_page(
    path: str | Path, title: str, blocks: Sequence[Block], subtitle: str = "", style: str = ""
) -> None:
    """Write the page, whole or not at all."""
    place = output(path, "the report")
    text = page(title, blocks, subtitle, style)
    write_file(place, text)


def output(path: str | Path, what: str) -> Path:
    """A place that can be written, so that work need not start in vain: its folder must exist."""
    place = Path(path)
    if place.is_dir():
        raise InputError(f"{what} {str(place)!r} is a folder; name a file in it")
    if not place.parent.is_dir():
        raise InputError(
            f"the folder {str(place.parent)!r} for {what} does not exist; make it or write elsewhere"
        )
    if not os.access(place.parent, os.W_OK):
        raise InputError(f"the folder {str(place.parent)!r} for {what} is write-protected; write elsewhere")
    return place

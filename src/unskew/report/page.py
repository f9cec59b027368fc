"""A report as one HTML file that needs nothing else: its charts work with no network and no server."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from unskew.errors import InputError
from unskew.files import write_file
from unskew.report.browser import script
from unskew.report.style import STYLE
from unskew.version import __version__


@dataclass(frozen=True)
class Heading:
    text: str

    def html(self, at: int) -> str:
        return f"<h2>{html.escape(self.text)}</h2>"


@dataclass(frozen=True)
class Paragraph:
    text: str
    quiet: bool = False

    def html(self, at: int) -> str:
        return f"<p{' class=quiet' if self.quiet else ''}>{html.escape(self.text)}</p>"


@dataclass(frozen=True)
class TableBlock:
    """Rows of text; the columns named in ``numbers`` are set to the right.

    On a phone a table of more than three columns becomes a list: every cell says which column it is of.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str] = frozenset()

    def html(self, at: int) -> str:
        kinds = [" class=number" if h in self.numbers else "" for h in self.head]
        head = "".join(f"<th{k}>{html.escape(h)}</th>" for h, k in zip(self.head, kinds, strict=True))
        body = "".join(
            "<tr>"
            + "".join(
                f'<td{k} data-title="{html.escape(h)}">{html.escape(c)}</td>'
                for c, k, h in zip(row, kinds, self.head, strict=True)
            )
            + "</tr>"
            for row in self.rows
        )
        stack = " class=stack" if len(self.head) > 3 else ""
        return (
            f"<div class=wide><table{stack}><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )


@dataclass(frozen=True)
class Figure:
    """A finished Vega-Lite specification, drawn when the page opens; ``alt`` tells it to who cannot see it."""

    specification: dict[str, Any]
    caption: str = ""
    alt: str = ""

    def html(self, at: int) -> str:
        # '<' is written as an escape so that no label can close the script element
        data = json.dumps(self.specification, separators=(",", ":")).replace("<", "\\u003c")
        caption = f"<figcaption>{html.escape(self.caption)}</figcaption>" if self.caption else ""
        told = f' role=img aria-label="{html.escape(self.alt)}"' if self.alt else ""
        return (
            f'<figure><div id="chart{at}" class=wide{told}></div>{caption}</figure>'
            f'<script type="application/json" data-chart="chart{at}">{data}</script>'
        )


class Block(Protocol):
    """A piece of a page. ``at`` is its place, which makes a name of its own for what needs one."""

    def html(self, at: int) -> str: ...


def page(title: str, blocks: Sequence[Block], subtitle: str = "", style: str = "") -> str:
    """The whole page as text; ``style`` is laid over the common one."""
    body = "\n".join(block.html(at) for at, block in enumerate(blocks))
    drawn = any(isinstance(block, Figure) for block in blocks)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="unskew {__version__}">
<title>{html.escape(title)}</title>
<style>{STYLE}{style}</style>
</head>
<body>
<main>
<header><h1>{html.escape(title)}</h1>{f"<p>{html.escape(subtitle)}</p>" if subtitle else ""}</header>
{body}
<footer>unskew {__version__}</footer>
</main>
{f"<script type=module>{script()}</script>" if drawn else ""}
</body>
</html>
"""


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

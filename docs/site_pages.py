"""Pages of the site whose text lies at the root of the repository, where people and tools look for it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, page: Any, **context: Any) -> str:
    """What MkDocs calls with the text of every page."""
    source = PAGES.get(page.file.src_uri)
    if source is not None:
        return as_page((ROOT / source).read_text(encoding="utf-8"))
    return markdown.replace("<!-- settings -->", settings()) if "<!-- settings -->" in markdown else markdown


def as_page(text: str) -> str:
    """A text of the root with its links as a page of docs/ has them."""
    for page, source in PAGES.items():
        text = text.replace(f"]({source}", f"]({page}")
    return re.sub(r"\]\(docs/", "](", text)


def settings() -> str:
    """Every setting of a run in a table: its type, its default and its help."""
    from unskew.expression import in_words, write_value
    from unskew.runs.describe import description
    from unskew.runs.spec import HINTS, Spec

    rows = ["| setting | is | default | what it does |", "|---|---|---|---|"]
    for field in dataclasses.fields(Spec):
        default = f"`{write_value(field.default)}`" if field.default not in (None, ()) else ""
        rows.append(
            f"| `{field.name}` | {in_words(HINTS[field.name])} | {default} | {description(Spec, field.name).help} |"
        )
    return "\n".join(rows)


def on_serve(server: Any, **context: Any) -> Any:
    """``make docs-serve`` shows changes of these files too."""
    for source in PAGES.values():
        server.watch(str(ROOT / source))
    return server

"""The table of docs/sites.md: what every part needs when clients are real sites, read from the parts themselves."""

from __future__ import annotations

import sys
from pathlib import Path

from unskew.core.method import Method
from unskew.core.registry import parts
from unskew.errors import InputError
from unskew.files import write_file
from unskew.sites.join import why_not
from unskew.sites.words import consent_words

BEGIN, END = "<!-- every part: begin -->", "<!-- every part: end -->"


def parts_table() -> str:
    """Markdown: one row a part, slot by slot, as its defaults or its example have it."""
    lines = ["| slot | part | at real sites |", "|---|---|---|"]
    for name, kind in parts().items():
        lines.append(f"| {kind.slot} | `{name}` | {_said(name, kind.example)} |")
    return "\n".join(lines)


def _said(name: str, example: str | None) -> str:
    try:
        method = Method.parse(example if example and "via=" in example else name)
    except InputError:  # it has no defaults
        method = Method.parse(example or name)
    part = next(part for part in method.parts if part.name == name)
    if (reason := why_not(part)) and hasattr(part, "via"):
        return f"{_said(name, f'{name}(via=relay)')} as `{name}(via=relay)`; refused where clients hand over directly"
    if reason:
        return f"refused: it {reason.partition(';')[0]}"
    words = [word for phrase in part.discloses for word in consent_words(phrase)]
    if not words:
        return "works"
    return f"works with consent to {', '.join(dict.fromkeys(words))}"


def paste(text: str) -> str:
    """A page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{parts_table()}\n{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[1])
    write_file(page, paste(page.read_text(encoding="utf-8")))

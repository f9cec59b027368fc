"""The table of docs/sites.md: what every part needs when clients are real sites, read from the parts themselves."""

from __future__ import annotations

from unskew.core.method import Method
from unskew.core.registry import parts
from unskew.errors import InputError
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
        method = Method.parse(name)
    except InputError:  # it has no defaults
        method = Method.parse(example or name)
    part = next(part for part in method.parts if part.name == name)
    if reason := why_not(part):
        return f"refused: it {reason}"
    words = [word for phrase in part.discloses for word in consent_words(phrase)]
    if not words:
        return "works"
    return f"works with consent to {', '.join(dict.fromkeys(words))}"


def paste(text: str) -> str:
    """A page with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{parts_table()}\n{END}{after}"

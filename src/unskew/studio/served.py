"""The files that pages load: styles and modules of this package, colours of the report's theme, Vega."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from importlib import resources

from unskew.report.browser import drawing_module
from unskew.report.style import COLOURS
from unskew.report.theme import DARK_MODE, FONT, PALETTE

KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@functools.lru_cache(maxsize=64)
def served_file(name: str) -> tuple[bytes, str, str] | None:
    """A file's content, its kind, and a seal that changes when it does; None where there is none."""
    if not re.fullmatch(r"[a-z0-9_-]+\.(css|js|svg)", name):
        return None
    if name in MADE:
        content = MADE[name]().encode()
    else:
        file = resources.files("unskew.studio") / "static" / name
        if not file.is_file():
            return None
        content = file.read_bytes()
    return content, KINDS[ending(name)], f'"{hashlib.blake2b(content, digest_size=8).hexdigest()}"'


def ending(name: str) -> str:
    return name[name.rfind(".") :]


def theme_css() -> str:
    """The report's colours by name, by day and at night; charts are drawn in those of paper and follow the page."""
    named = "".join(f"  {name}: light-dark({day}, {night});\n" for name, (day, night) in COLOURS.items())
    named += "".join(f"  --tone{at}: {colour};\n" for at, colour in enumerate(PALETTE))
    charts = "".join(
        f'svg [{kind}="{day}"] {{ {kind}: light-dark({day}, {night}); }}\n'
        for day, night in DARK_MODE.items()
        for kind in ("fill", "stroke")
    )
    return (
        f":root {{\n  color-scheme: light dark;\n  --font: {FONT};\n{named}}}\n"
        ':root[data-theme="light"] { color-scheme: light; }\n:root[data-theme="dark"] { color-scheme: dark; }\n'
        f"@media screen {{\n{charts}}}\n"
    )


MADE: dict[str, Callable[[], str]] = {"theme.css": theme_css, "vega.js": drawing_module}
"""Files that are made when they are first asked for."""

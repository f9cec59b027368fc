"""The page on real sites says of every part what is true of it."""

from pathlib import Path

from unskew.core.registry import parts
from unskew.sites.parts_table import parts_table, paste

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sites.md"


def test_the_page_has_the_table_as_it_is():
    text = PAGE.read_text(encoding="utf-8")
    assert text == paste(text), "write it anew: python -m unskew.sites.parts_table docs/sites.md"


def test_every_part_has_a_row():
    table = parts_table()
    assert all(f"| `{name}` |" in table for name in parts())

"""Every table of measured numbers says where they come from: an exhibit with results, a command, or a paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unskew.reproduce.exhibit import exhibits

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("methods/*.md")])
RESULTS = {file.stem for file in (DOCS / "book" / "results").glob("*.jsonl")}
NUMBER = re.compile(r"^[*+\-\u2212]*\d[\d,]*\.\d")
SOURCE = re.compile(
    r"<!-- (from: (?P<source>.+?)|rows (?P<rows>[\w.-]+)|(?P<book>gains|open|held out|exhibits)) -->"
)
MADE_BY = ("unskew ", "python ", "make ")


def tables(text: str) -> list[tuple[int, list[str], str]]:
    """(line, rows, what stands above) of every table outside of code."""
    found, lines, code = [], text.splitlines(), False
    for at, line in enumerate(lines):
        code ^= line.startswith("```")
        if not code and line.startswith("|") and not lines[at - 1].startswith("|"):
            end = next((n for n in range(at, len(lines)) if not lines[n].startswith("|")), len(lines))
            above = next((lines[n] for n in range(at - 1, -1, -1) if lines[n].strip()), "")
            found.append((at + 1, lines[at:end], above))
    return found


def measured(rows: list[str]) -> bool:
    """Whether four cells or more begin with a number that has a decimal point."""
    cells = [cell.strip() for row in rows[2:] for cell in row.strip("|").split("|")]
    return sum(bool(NUMBER.match(cell)) for cell in cells) >= 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_table_of_numbers_says_where_they_come_from(page: Path) -> None:
    """By a comment above it: an exhibit that has results, a command, or who printed them."""
    for line, rows, above in tables(page.read_text("utf-8")):
        if not measured(rows):
            continue
        mark = SOURCE.fullmatch(above.strip())
        assert mark, (
            f"{page.name}, line {line}: write <!-- from: unskew reproduce EXHIBIT --> above this table"
        )
        named = (
            [mark["rows"]]
            if mark["rows"]
            else re.findall(r"unskew reproduce ([\w.-]+)", mark["source"] or "")
        )
        for name in named:
            assert name in exhibits(), f"{page.name}, line {line}: there is no exhibit {name}"
            assert name in RESULTS, f"{page.name}, line {line}: {name} has no results"
        source = mark["source"]
        assert source is None or source.startswith((*MADE_BY, "printed in ")), f"{page.name}, line {line}"


VERDICTS = re.compile(r"^## What comes out\n.*?(?=^## The numbers\n)", re.M | re.S)
SOURCED = re.compile(r"\d[\d.,]*(?: ± [\d.]+)?(?:%| points?| times)?<!-- (?:=|from:) .+?-->", re.S)
LEFT = re.compile(r"\d+\.\d+|\d+%|\d+ points?")
IN_PROSE = re.compile(r"\d+(?:\.\d+)? ± \d|\d+(?:\.\d+)?%|\d+(?:\.\d+)? points")
TRACE = re.compile(
    r"unskew (?:reproduce|sweep|run|partition) |python -m |docs/recipes/|docs/book/results|<!-- (?:from:|=|rows) "
)


def test_every_number_of_the_verdicts_has_a_source() -> None:
    """In docs/papers.md a source follows it: ``<!-- = EXHIBIT/... -->``, made anew, or ``<!-- from: ... -->``."""
    (verdicts,) = VERDICTS.findall((DOCS / "papers.md").read_text("utf-8"))
    bare = LEFT.findall(re.sub(r"`[^`]*`|\b(Dir|Qua)\([\d.]+\)", "", SOURCED.sub("", verdicts)))
    assert not bare, f"docs/papers.md: write <!-- = SOURCE --> after {', '.join(bare)}"


@pytest.mark.parametrize("page", sorted(DOCS.glob("methods/*.md")), ids=lambda page: page.stem)
def test_numbers_in_prose_can_be_traced(page: Path) -> None:
    """A section that tells accuracies or points names a command, a recipe, results, or who printed them."""
    for section in re.split(r"\n(?=#+ )", re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.S)):
        prose = "\n".join(line for line in section.splitlines() if not line.startswith("|"))
        if IN_PROSE.search(re.sub(r"`[^`]*`", "", prose)):
            assert TRACE.search(prose), (
                f"{page.name}, {section.splitlines()[0]}: where do its numbers come from?"
            )

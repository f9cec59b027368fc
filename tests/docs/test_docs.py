"""What the documentation shows is what happens."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def loaded(name: str) -> ModuleType:
    """A module of the docs folder, which is no package."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


snippets = loaded("snippets")
PAGES = {str(page.relative_to(ROOT)): page for page in snippets.pages()}
LEAVES = {"docs/report.md": {"one.html", "report.html", "table.tex"}}
"""Files that a page says its code writes."""


@pytest.mark.usefixtures("quick_sweeps")
@pytest.mark.parametrize("name", PAGES)
def test_the_code_of_the_page_runs(name: str) -> None:
    """Every Python block and every unskew command, top to bottom, in an empty folder."""
    with snippets.quiet_place():
        for block, said in snippets.play(PAGES[name]):
            if block.language == "console" and block.mark != "exact":
                other = snippets.unlike(block, said)
                assert not other, f"{name}, line {block.line} shows something else than is printed:\n{said}"
            if block.mark == "exact":
                assert snippets.matches(block.text, said), (
                    f"{name}, line {block.line} shows something else than is printed; refresh it with "
                    f"`python docs/snippets.py {name}`\n{said}"
                )
        assert LEAVES.get(name, set()) <= set(os.listdir())


@pytest.mark.parametrize(
    ("shown", "alike"),
    [
        ("  final  0.87 after round 20\n  cost   36.0 MB, 1,580 steps, 1.3 s\n", True),
        ("  final  0.9 after round 3\n  cost   1 MB, 2 steps, 4 min\n", True),
        ("  final  0.9 after\n         round 3\n  …\n", True),
        ("  …\n  cost   1 MB, 2 steps, 4 min\n", True),
        ("  final  0.87 after round 20\n", False),
        ("  final  0.87 at round 20\n  …\n", False),
        ("  final  0.87 after round 20\n  cost   36.0 kB, 1,580 steps, 1.3 s\n", False),
        ("", True),
    ],
)
def test_what_a_page_shows_below_a_command_is_printed_but_for_numbers(shown: str, alike: bool) -> None:
    """A line left out, or another word, is something else; where nothing is shown nothing is said."""
    said = "$ unskew run\n  final  0.87 after round 20\n  cost   36.0 MB, 1,580 steps, 1.3 s\n"
    page = f"```console\n$ unskew run\n{shown}```\n"
    assert snippets.unlike(snippets.blocks(page)[0], said) == ([] if alike else ["unskew run"])


@pytest.mark.parametrize("name", PAGES)
def test_a_block_that_is_not_run_says_why(name: str) -> None:
    """No other marks, no reason left out, and no command hidden in a block that nobody runs."""
    for block in snippets.blocks(PAGES[name].read_text(encoding="utf-8")):
        where = f"{name}, line {block.line}"
        assert not block.mark.startswith("not run") or block.why_not, (
            f"{where} does not say why it is not run"
        )
        hidden = block.language in ("bash", "sh", "shell") and "unskew " in block.text
        assert not hidden or name == "docs/report.md", f"{where}: write ```console and $ before each command"


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link of every page, the README's too, to a file that is there."""
    for name, page in PAGES.items():
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{name} links to {link}, which is not there"


def test_every_page_is_in_the_navigation() -> None:
    """A page that nobody links to is not read."""
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert there == listed


def test_the_readme_and_the_guide_name_no_path_of_a_machine() -> None:
    """Pages hold no home folder, no cache and no package registry."""
    for name, page in PAGES.items():
        found = re.search(r"/(?:root|home|work|tmp)/\S+|pypi\.\S+", page.read_text(encoding="utf-8"))
        assert found is None, f"{name} names {found and found[0]}"


def test_the_overview_names_every_part_and_preset() -> None:
    """Whoever adds a part adds it to the table that a newcomer reads first."""
    from unskew.parts import PARTS, PRESETS

    overview = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert [name for name in (*PARTS, *PRESETS) if f"`{name}`" not in overview] == []

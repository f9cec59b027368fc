"""The site: what is on it, and that its pages are made of what is in the repository."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import unskew
from unskew import parts
from unskew.runs.spec import Spec

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import site_pages  # noqa: E402

sys.path.pop(0)

API = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
SITE = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", unskew.__all__)
def test_every_public_name_is_in_the_reference(name):
    """Under the module that it lives in, which mkdocstrings reads."""
    found = getattr(unskew, name)
    assert f"\n::: {found.__module__}.{name}\n" in API


@pytest.mark.parametrize("name", sorted({*parts.__all__} - {"DECIDES", "PARTS", "PRESETS", "SLOTS"}))
def test_all_that_the_author_of_a_part_imports_is_in_the_reference(name):
    """But for the tables of what there is, which `unskew methods` lists."""
    assert re.search(rf"^::: unskew\.\S+\.{name}$", API, re.M)


def test_everything_in_the_reference_is_there():
    """No line of it names what was moved or removed."""
    for path in re.findall(r"^::: (\S+)$", API, re.M):
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module), name).__doc__, path


def test_every_method_in_the_reference_says_what_it_does():
    """What has no docstring would not be shown."""
    silent = []
    for path in re.findall(r"^::: (\S+)$", API, re.M):
        module, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(module), name)
        for verb, member in vars(found).items() if inspect.isclass(found) else ():
            plain = getattr(member, "__func__", getattr(member, "fget", getattr(member, "func", member)))
            if inspect.isfunction(plain) and not verb.startswith("_") and not plain.__doc__:
                silent.append(f"{path}.{verb}")
    assert silent == []


def test_the_reference_has_a_row_for_every_setting():
    """Its type, its default and its help, from the record itself."""
    table = site_pages.on_page_markdown(
        "<!-- settings -->", SimpleNamespace(file=SimpleNamespace(src_uri="api.md"))
    )
    assert len(table.splitlines()) == 2 + len(dataclasses.fields(Spec))
    assert "| `batch` | a whole number | `32` | Samples a step. |" in table
    assert "<!-- settings -->" in API


@pytest.mark.parametrize("page", site_pages.PAGES)
def test_contributing_and_changelog_are_pages(page):
    """As they are at the root, with links that lead to pages; what is at the root is not copied."""
    made = site_pages.on_page_markdown("", SimpleNamespace(file=SimpleNamespace(src_uri=page)))
    assert made.splitlines()[0] == (ROOT / site_pages.PAGES[page]).read_text(encoding="utf-8").splitlines()[0]
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", made, flags=re.S)):
        assert "://" in link or (ROOT / "docs" / link).is_file(), link
    assert f": {page}" in SITE


def test_search_needs_neither_a_server_nor_a_network():
    """The offline plugin, with a stand-in for workers that is in the repository instead of on somebody's server."""
    assert "- offline" in SITE
    assert "polyfills: [assets/iframe-worker.js]" in SITE
    assert (ROOT / "docs" / "assets" / "iframe-worker.js").is_file()
    assert "docs-serve:" in (ROOT / "Makefile").read_text()


def test_own_parts_shows_memory_at_the_server_and_at_clients():
    """A momentum as the example; its code, its checks and its command are run with the page."""
    page = (ROOT / "docs" / "own_parts.md").read_text(encoding="utf-8")
    for shown in (
        "class Nesterov(Advance)",
        "def init_server",
        "def init_client",
        "check_part(Nesterov)",
        "def absorb",
    ):
        assert shown in page
    assert "$ unskew methods nesterov:Nesterov\n" in page


def test_pictures_suit_a_dark_page():
    """Charts and drawings on white are turned over there; what shows photographs is marked and stays as it is."""
    style = (ROOT / "docs" / "assets" / "site.css").read_text()
    assert '[data-md-color-scheme="slate"] .md-typeset img:not(.as-is)' in style
    photographs = {"privacy-reconstructions.png", "privacy-inversions.png"}
    for page in (ROOT / "docs").rglob("*.md"):
        for picture, mark in re.findall(
            r"!\[[^\]]*\]\([^)]*?([\w-]+\.(?:png|svg))\)(\{ \.as-is \})?", page.read_text()
        ):
            assert bool(mark) == (picture in photographs), f"{page.name}: {picture}"


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/quickstart.md"])
def test_who_installs_is_told_of_the_small_wheel(page):
    """PyTorch's CPU build, where the usual one brings gigabytes for GPUs; and where its address is."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert "$ pip install torch --index-url …   # PyTorch's CPU wheels" in text
    assert "(https://pytorch.org/get-started/locally/)" in text
    assert text.index("--index-url") < text.index("$ pip install .\n")

"""The pages about methods are whole, and their recipes sound (test_docs.py runs their code)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unskew.core.method import Method
from unskew.parts import PARTS, PRESETS
from unskew.reproduce.exhibit import exhibits
from unskew.runs.experiment_file import grid_values, read_toml
from unskew.runs.spec import Spec

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = sorted((DOCS / "methods").glob("*.md"))
RECIPES = sorted((DOCS / "recipes").glob("*.toml"))


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_is_whole(page):
    """It is about a method that there is, has its picture, what it costs and discloses, and only recipes that exist."""
    text = page.read_text()
    assert page.stem in {*PARTS, *PRESETS}
    assert "```python\n" in text
    assert f"](../img/{page.stem}.svg)" in text
    assert (DOCS / "img" / f"{page.stem}.svg").read_text().startswith("<svg")
    for heading in ("**Helps**", "**Costs**", "**Discloses**", "## Numbers"):
        assert heading in text
    for recipe in re.findall(r"docs/recipes/(\w+\.toml)", text):
        assert (DOCS / "recipes" / recipe).is_file()


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda p: p.stem)
def test_a_recipe_can_be_run(recipe):
    """Its settings and its methods are read without complaint, and some page or exhibit names it."""
    settings, grid = read_toml(recipe)
    for expression in grid_values("method", grid["method"], recipe.name):
        Method.parse(expression)
        Spec.of(settings | {"method": expression})
    used = {group.recipe for exhibit in exhibits().values() for group in exhibit.groups}
    assert recipe.stem in used or any(recipe.name in page.read_text() for page in DOCS.rglob("*.md"))

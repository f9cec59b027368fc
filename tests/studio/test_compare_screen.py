"""Compare in a real browser, and a published copy of the studio opened from the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unskew.errors import InputError
from unskew.studio.bundle import bundle
from unskew.studio.export import export_site
from waiting import until

SETTLED = "#results[aria-busy='false'] [data-drawn='true'] svg:visible"
WriteRun = Callable[..., Path]


@pytest.fixture
def hostile(write_run: WriteRun, six_runs: Path) -> Path:
    """Six runs and one whose names are scripts."""
    write_run(
        "sweep/<img src=x onerror=alert(1)>",
        [0.2, 0.3, 0.4],
        method="sem",
        method_label="<script>alert(1)</script>",
        seed=0,
    )
    return six_runs


def test_groups_are_picked_by_keys(
    open_studio: Callable[..., Any], look: Callable[..., Any], hostile: Path
) -> None:
    """Two methods and a third with a hostile name; without it, a leaderboard of two; as a sentence, then a file."""
    found = look(open_studio(hostile, read_only=True))
    page = found.open("/compare")
    page.wait_for_selector(SETTLED)
    assert page.locator(".leaderboard tbody tr").count() == 3
    found.check_contrast()
    page.get_by_role("checkbox", name="<script>alert(1)</script>").focus()
    page.keyboard.press("Space")
    until(page, "document.querySelectorAll('.leaderboard tbody tr').length === 2")
    page.wait_for_selector(SETTLED)
    assert "full" in page.inner_text("#title")
    assert "Trade-offs" in page.inner_text("#compared")
    page.select_option("#baseline", "full")
    until(page, "document.querySelector('.leaderboard').textContent.includes('against full')")
    with page.expect_download() as wait:
        page.click("a[data-kind=csv]")
    rows = Path(wait.value.path()).read_text().splitlines()
    assert len(rows) == 3
    assert rows[1].startswith("digits")


def test_runs_named_in_the_address_on_a_phone_at_night(
    open_studio: Callable[..., Any], look: Callable[..., Any], six_runs: Path
) -> None:
    found = look(open_studio(six_runs), width=390, height=844, color_scheme="dark")
    page = found.open("/compare?run=fedavg-0&run=fedavg-1")
    page.wait_for_selector(SETTLED)
    assert page.locator(".leaderboard tbody tr").count() == 1
    assert "2 seeds" in page.inner_text(".leaderboard")
    found.check_width()
    found.check_contrast()


def test_a_copy_opens_from_the_disk(look: Callable[..., Any], hostile: Path, tmp_path: Path) -> None:
    """No server, no network: pages draw, links lead to files, nothing complains."""
    first = export_site(hostile, tmp_path / "copy")
    found = look(None)
    page = found.page
    page.goto(first.as_uri())
    page.wait_for_url("**/runs.html")
    page.click("nav >> text=Compare")
    page.wait_for_selector(SETTLED)
    assert page.locator(".leaderboard tbody tr").count() == 3
    assert page.get_attribute("a[data-kind=latex]", "href") == "data/compare.tex"
    saved = json.loads((tmp_path / "copy" / "data" / "compare.json").read_text())
    assert saved["/compare/of"]["title"]
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []


def test_a_copy_takes_the_place_of_a_copy_and_of_nothing_else(six_runs: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    for target in (other, other / "thesis.tex", six_runs, tmp_path):
        with pytest.raises(InputError):
            export_site(six_runs, target)
    assert (other / "thesis.tex").read_text() == "mine"
    export_site(six_runs, tmp_path / "copy")
    (tmp_path / "copy" / "data" / "old.txt").write_text("from an earlier one")
    export_site(six_runs, tmp_path / "copy")
    assert not (tmp_path / "copy" / "data" / "old.txt").exists()


def test_modules_become_one_script() -> None:
    texts = {
        "a.js": 'import {b} from "./b-c.js";\nexport const a = b + 1;\n',
        "b-c.js": 'export const b = 1;\nconst later = () => import("./vega.js");\n',
    }
    made = bundle("a", texts.__getitem__)
    assert made.index("module_b_c = ") < made.index("module_a = ")
    assert "const {b} = module_b_c;" in made
    assert 'unskewCopy.load("static/vega.js")' in made
    assert "import" not in made

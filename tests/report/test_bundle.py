"""The script that draws charts is made once, and whatever happens to what was kept, a page gets the right one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import vl_convert

from unskew.report import bundle
from unskew.report.bundle import bundled


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The snippets that were bundled, which takes no time here; scripts are kept below ``tmp_path``."""
    snippets: list[str] = []

    def make(snippet: str) -> str:
        snippets.append(snippet)
        return f"libraries;{snippet}"

    monkeypatch.setattr(vl_convert, "javascript_bundle", make)
    monkeypatch.setattr(bundle, "script_folder", lambda: tmp_path / "scripts")
    return snippets


def test_it_is_made_once(made: list[str], tmp_path: Path) -> None:
    """The second page takes what the first has kept; one file a name, and no draft beside it."""
    assert [bundled("page", "draw()") for _ in range(3)] == ["libraries;draw()"] * 3
    assert made == ["draw()"]
    assert [file.name for file in (tmp_path / "scripts").iterdir()] == ["page.json"]


def test_other_lines_or_libraries_are_bundled_anew(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As after an update of unskew or of vl-convert."""
    bundled("page", "draw()")
    assert bundled("page", "draw(2)") == "libraries;draw(2)"
    monkeypatch.setattr(bundle, "version", lambda name: f"a later {name}")
    bundled("page", "draw(2)")
    assert made == ["draw()", "draw(2)", "draw(2)"]


def cut(place: Path) -> None:
    place.write_bytes(place.read_bytes()[:-20])


def change(place: Path) -> None:
    place.write_text(place.read_text().replace("libraries", "malaria!!"))


def leave_the_script_out(place: Path) -> None:
    place.write_text(json.dumps({"snippet": "draw()"}))


def put_a_folder_there(place: Path) -> None:
    place.unlink()
    place.mkdir()


@pytest.mark.parametrize("spoil", [cut, change, leave_the_script_out, put_a_folder_there])
def test_what_is_damaged_is_not_used(spoil: Callable[[Path], None], made: list[str], tmp_path: Path) -> None:
    """It is made again, whatever is there."""
    bundled("page", "draw()")
    spoil(tmp_path / "scripts" / "page.json")
    assert bundled("page", "draw()") == "libraries;draw()"
    assert made == ["draw()"] * 2


def test_a_cache_that_cannot_be_written_costs_time_alone(made: list[str], tmp_path: Path) -> None:
    """No error, and no other place is tried."""
    (tmp_path / "scripts").write_text("in the way")
    assert [bundled("page", "draw()") for _ in range(2)] == ["libraries;draw()"] * 2
    assert made == ["draw()"] * 2

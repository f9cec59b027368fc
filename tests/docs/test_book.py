"""The book is made of its results: made again, it is the same."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from unskew.reproduce.exhibit import exhibits

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "docs" / "book" / "results").glob("*.jsonl"))


def test_the_page_and_the_shipped_files_are_what_the_results_make() -> None:
    """docs/papers.md, what `unskew reproduce` shows, what `unskew diagnose` recommends from."""
    spec = importlib.util.spec_from_file_location("docs_book_make", ROOT / "docs" / "book" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for file, text in module.made().items():
        assert file.read_text("utf-8") == text, f"{file.name} is old: run `python docs/book/make.py`"


@pytest.mark.parametrize("file", RESULTS, ids=lambda file: file.stem)
def test_a_line_of_results_says_what_it_is(file: Path) -> None:
    """Exhibit, group and method that there are; numbers; version, device, origin; seconds, null where unknown."""
    groups = {group.name: group for group in exhibits()[file.stem].groups}
    for text in file.read_text("utf-8").splitlines():
        line = json.loads(text)
        assert line["exhibit"] == file.stem
        assert line["version"]
        if "row" in line:
            assert exhibits()[file.stem].makes
            assert {"version", "device", "seconds", "origin"} <= set(line)
            continue
        assert line["method"] in groups[line["group"]].methods
        assert {"setting", "seed", "version", "device", "seconds", "origin"} <= set(line)
        assert line["seed"] is not None or line["seeds"] > 1
        assert any(key in line for key in ("accuracy", "best", "end", "final"))
        assert len(text) < 8000

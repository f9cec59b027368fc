"""The book is made of its results: made again, it is the same."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from unskew.reproduce.exhibit import exhibits

ROOT = Path(__file__).resolve().parents[2]
RESULTS = sorted((ROOT / "docs" / "book" / "results").glob("*.jsonl"))


def made_book() -> Any:
    """docs/book/make.py, as a module."""
    spec = importlib.util.spec_from_file_location("docs_book_make", ROOT / "docs" / "book" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_and_the_shipped_files_are_what_the_results_make() -> None:
    """docs/papers.md, what `unskew reproduce` shows, what `unskew diagnose` recommends from."""
    for file, text in made_book().made().items():
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


def test_lines_of_other_settings_are_refused_before_anything_is_written(tmp_path, monkeypatch) -> None:
    """A run of 2 rounds, a cell that is none, a row of another number of rounds: file and line are named."""
    make = made_book()
    monkeypatch.setattr(make, "RESULTS", tmp_path / "results")
    sound = json.loads((ROOT / "docs/book/results/digits-steps.jsonl").read_text("utf-8").splitlines()[0])
    short = sound | {"setting": sound["setting"] | {"rounds": 2}}
    row = {"exhibit": "balanced-digits", "group": "", "method": "", "row": {}, "setting": {"rounds": 2}}
    file = tmp_path / "new.jsonl"
    for line, said in (
        (short, "its run has 2 of 40 rounds"),
        (sound | {"method": "moon"}, "digits-steps has no cell digits/moon"),
        (sound | {"exhibit": "digits"}, "there is no exhibit 'digits'"),
        (row, "its row is of runs with rounds = 2, other than the exhibit's"),
    ):
        file.write_text("".join(json.dumps(one) + "\n" for one in (sound, line)))
        monkeypatch.setattr("sys.argv", ["make.py", str(file)])
        with pytest.raises(SystemExit) as ended:
            make.main()
        assert str(ended.value) == f"error: {file}, line 2 is not for the book: {said}; nothing was added"
        assert list(tmp_path.iterdir()) == [file]
    file.write_text(json.dumps(sound | {"device": "cuda"}) + "\n")
    assert make.fit(file) == [sound | {"device": "cuda"}]

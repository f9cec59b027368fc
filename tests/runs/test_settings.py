"""Editors and type checkers know every setting and every public name."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest

import unskew
from unskew.runs.running import run
from unskew.runs.settings import AllSettings, Settings
from unskew.runs.spec import HINTS
from unskew.runs.sweep import sweep

ROOT = Path(__file__).resolve().parents[2]


def as_keyword(hint: typing.Any) -> typing.Any:
    """What a keyword may hold: what the field does, and a list for a tuple."""
    return hint | list[typing.get_args(hint)[0]] if typing.get_origin(hint) is tuple else hint


def test_the_keywords_are_the_fields_of_spec():
    """All of them, none besides, each of the same type."""
    wanted = {name: as_keyword(hint) for name, hint in HINTS.items()}
    found = typing.get_type_hints(AllSettings)
    other = {*found.items()} ^ {*wanted.items()}
    assert not other, (
        f"src/unskew/runs/settings.py differs from Spec in {sorted({name for name, _ in other})}"
    )


def test_run_and_sweep_take_these_keywords():
    """A misspelt one is a type error, since none is taken by any name."""
    given = typing.get_type_hints(run)["given"]
    assert typing.get_args(given) == (Settings,)
    assert typing.get_args(typing.get_type_hints(sweep)["settings"]) == (AllSettings,)
    assert {*typing.get_type_hints(AllSettings)} - {*typing.get_type_hints(Settings)} == {
        "dataset",
        "method",
        "model",
        "metrics",
    }


def test_the_type_check_covers_misspelt_calls():
    """``make check`` reads tests/typed, where an error that does not come is one."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert "tests/typed" in settings["files"]
    assert settings["strict"]
    assert "rouns=5)  # type: ignore[call-arg]" in (ROOT / "tests/typed/calls.py").read_text()


def test_dir_lists_the_public_names_before_they_are_used():
    """In a fresh interpreter, without loading torch."""
    said = subprocess.run(
        [sys.executable, "-c", "import sys, unskew; print(*dir(unskew), 'torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert said.pop() == "False"
    assert {name for name in said if not name.startswith("__")} == set(unskew.__all__)


@pytest.mark.parametrize("name", unskew.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name):
    """And ``from unskew import *`` gives it."""
    assert getattr(unskew, name).__doc__


def test_paths_may_be_path_objects(tmp_path):
    """Where a setting is a place, as everywhere in Python."""
    assert unskew.Spec(data_folder=tmp_path).data_folder == str(tmp_path)

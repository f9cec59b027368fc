"""What newcomers write first, and what they are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.cli import main
from unskew.cli.app import ORDER, app


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "run cifar10",
            "there is no experiment file cifar10; to train on the data set of this name write --dataset c",
        ),
        (
            "run .",
            ". is a folder; name an experiment file, such as grid.toml, or write --dataset . to train on what is",
        ),
        ("run --method mine:Clam", "there is no 'Clam' in 'mine'; did you mean mine:Calm?"),
        (
            "run --method MyThing",
            "or a part of your own as the file and the class that it is in, such as mine:MyThing",
        ),
        (
            "diagnose a.csv b.csv",
            "extra argument (b.csv); put the tables of all clients into one folder and name that",
        ),
        ("diagnose a b", "Got unexpected extra argument (b)\n"),
    ],
)
def test_a_first_mistake_is_told_with_what_to_write(
    words: str, told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("mine.py").write_text("class Calm:\n    pass\n")
    assert main(words.split()) == 2
    assert told in capsys.readouterr().err


def test_commands_stand_in_the_order_in_which_they_are_needed(capsys: pytest.CaptureFixture[str]) -> None:
    """All that are shown have a place, and the first ones come first."""
    shown = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback and not c.hidden}
    assert shown == set(ORDER)
    assert main(["--help"]) == 0
    said = capsys.readouterr().out
    places = [said.index(f"│ {name} ") for name in (*ORDER, "federation", "site")]
    assert places == sorted(places)


def test_settings_that_are_columns_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--help"]) == 0
    said = capsys.readouterr().out
    for flag in ("--label", "--client", "--by", "--features", "--drop-columns", "--test-column"):
        line = next(line for line in said.splitlines() if f"{flag} " in line)
        assert "COLUMN" in line

"""Every command is timed, or said to train: a new one is not forgotten."""

from __future__ import annotations

import pytest
from benchmarks import starting


def test_every_command_is_asked_something_or_said_to_last() -> None:
    """What is asked names commands that there are, each once; and the help of every one is asked for."""
    every = starting.every_command()
    assert {"run", "sweep", "report", "federation status", "site clean"} <= set(every)
    known = [*starting.ASKED, *starting.COMPUTES, *starting.LASTS]
    assert sorted(known) == sorted(["", *every])
    assert {f"{name} --help".strip() for name in ["", *every]} <= set(starting.asked())


def test_a_command_that_nobody_thought_of_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "every_command", lambda: ["run", "dream"])
    with pytest.raises(SystemExit, match="what is to be asked of: dream"):
        starting.asked()

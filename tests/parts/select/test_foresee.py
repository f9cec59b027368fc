"""What a rule of selection can say before a round, and what an engine makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unskew.core.roster import Roster
from unskew.core.slots import Select
from unskew.parts import PARTS
from unskew.parts.select import KLD, Full, Uniform
from unskew.seeds import generator
from unskew.testing.toy_federation import play, tiny

NOBODY = np.zeros(0, np.int64)


@pytest.mark.parametrize("part", [Uniform(), Full()])
@pytest.mark.parametrize("count", [1, 4, 99])
def test_what_is_foreseen_is_what_is_selected(part: Any, count: int) -> None:
    """From the same random numbers, where nobody is excluded; and it is never more than the largest cohort."""
    roster = Roster.of(tiny())
    chosen, _ = part.select(count, NOBODY, roster, {}, generator(0, "select", 3, 0))
    foreseen = part.foresee(count, roster, generator(0, "select", 3, 0))
    assert foreseen.tolist() == chosen.clients.tolist()
    assert len(foreseen) == part.largest_cohort(count, roster.clients)


def test_who_cannot_know_says_so() -> None:
    """Selection by data, and a rule of one's own that says nothing."""
    roster = Roster.of(tiny())
    assert KLD().foresee(3, roster, generator(0, "select")) is None
    assert Select().foresee(3, roster, generator(0, "select")) is None
    assert Select().largest_cohort(7, 5) == 5


@pytest.mark.parametrize("name", [name for name, kind in PARTS.items() if issubclass(kind, Select)])
def test_a_guess_changes_no_number(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU's engine prepares for whoever is foreseen: for the right clients, for wrong ones, for none, the same."""
    from unskew.core.method import Method
    from unskew.engines.gpu.fast import FastGPU

    method = Method.parse(name)
    expected = play(method, engine=FastGPU("cpu")).hash
    for guess in (None, np.array([0], np.int64)):
        monkeypatch.setattr(type(method.select), "foresee", lambda *given, guess=guess: guess)
        assert play(method, engine=FastGPU("cpu")).hash == expected

"""Every schedule with every base method, with and without augmentation: 56 methods that must just work."""

from __future__ import annotations

import itertools

import pytest

from by_hand import holding
from unskew.core.method import Method
from unskew.testing.toy_federation import apart, other_engines, play

SCHEDULES = ("plain", "sem", "phase_shift(2)", "phase_shift(4)")
BASES = ("fedavg", "fedprox", "scaffold", "fednova", "feddyn", "fedfa", "fedfv")
DATA = ("", "fedaug(0.8)")
TABLE = ["+".join(filter(None, parts)) for parts in itertools.product(SCHEDULES, BASES, DATA)]

SKEWED = holding([[9, 1, 1], [1, 8, 2], [2, 1, 9], [1, 1, 5], [7, 1, 1], [1, 10, 1]])


@pytest.mark.slow
@pytest.mark.parametrize("expression", TABLE)
def test_it_trains_resumes_and_agrees_between_engines(expression):
    """The model moves and stays finite; stopped after every round it ends in the same bits; engines agree to 1e-9."""
    method = Method.parse(expression)
    settings = {"rounds": 3, "epochs": 1, "momentum": 0.5}
    whole, stopped = (play(method, SKEWED, stopped=s, **settings) for s in (False, True))
    assert whole.hash != whole.started
    assert whole == stopped
    assert all(line["global_test_loss"] < 1e3 for line in whole.lines)
    for engine in other_engines():
        found = play(method, SKEWED, engine=engine, **settings)
        assert apart(whole.state.params, found.state.params) < 1e-9
        assert [line["bytes"] for line in found.lines] == [line["bytes"] for line in whole.lines]


def test_the_table_is_whole():
    """Four schedules, seven methods, two kinds of data; each expression reads back as itself."""
    assert len(set(TABLE)) == 56
    assert all(Method.parse(str(Method.parse(text))) == Method.parse(text) for text in TABLE)

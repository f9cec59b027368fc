"""The server's momentum, worked by hand."""

from __future__ import annotations

import pytest

from by_hand import FakeNet, numbers
from unskew.errors import InputError
from unskew.parts.advance import FedAvgM


def test_two_rounds_by_hand():
    """beta 0.5, eta 1, changes of (4, 0) and (2, 2) from (0, 1).

    Round 1: v = (4, 0), w = (4, 1). Round 2: v = 0.5 (4, 0) + (2, 2) = (4, 2), w = (8, 3).
    """
    part, w = FedAvgM(beta=0.5), {"w": numbers(0.0, 1.0)}
    memory = part.init_server(FakeNet())  # type: ignore[arg-type]
    w, memory = part.step(w, {"w": numbers(4.0, 0.0)}, memory)
    assert (w["w"].tolist(), memory["momentum"]["w"].tolist()) == ([4.0, 1.0], [4.0, 0.0])
    w, memory = part.step(w, {"w": numbers(2.0, 2.0)}, memory)
    assert (w["w"].tolist(), memory["momentum"]["w"].tolist()) == ([8.0, 3.0], [4.0, 2.0])


def test_eta_shortens_the_step_and_not_the_momentum():
    """eta 0.5: the same v, half the way."""
    part = FedAvgM(beta=0.5, eta=0.5)
    w, memory = part.step(
        {"w": numbers(0.0, 0.0)}, {"w": numbers(4.0, 2.0)}, {"momentum": {"w": numbers(2.0, 0.0)}}
    )
    assert (w["w"].tolist(), memory["momentum"]["w"].tolist()) == ([2.5, 1.0], [5.0, 2.0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"beta": 1}, "beta of fedavgm must be at least 0 and below 1, not 1"),
        ({"eta": 0}, "eta of fedavgm must be above 0"),
    ],
)
def test_what_is_refused(given, said):
    """A momentum that never fades, and a server that never moves."""
    with pytest.raises(InputError, match=said):
        FedAvgM(**given)

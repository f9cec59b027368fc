"""The server's plain step."""

from __future__ import annotations

import pytest
import torch

from by_hand import numbers
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.advance import ServerSGD


def test_half_a_step():
    """From (1, 1) along (2, 4): eta 0.5 goes to (2, 3), eta 1 to (3, 5)."""
    w, change = {"w": numbers(1.0, 1.0)}, {"w": numbers(2.0, 4.0)}
    assert ServerSGD(eta=0.5).step(w, change, {})[0]["w"].tolist() == [2.0, 3.0]
    assert ServerSGD().step(w, change, {})[0]["w"].tolist() == [3.0, 5.0]


def test_the_sum_is_rounded_once_in_the_models_own_type():
    """A change of 2^-30 is lost beside 1 in float32 and the type stays; added in float64 to 2^-30 it is not."""
    w = {"w": torch.tensor([1.0, 2.0**-30])}
    stepped, _ = ServerSGD().step(w, {"w": numbers(2.0**-30, 2.0**-30)}, {})
    assert stepped["w"].dtype == torch.float32
    assert stepped["w"].tolist() == [1.0, 2.0**-29]


def test_it_is_what_a_method_does_that_names_nothing():
    """FedAvg, SCAFFOLD and SEM take the aggregate as it is, and none of them writes that down."""
    for written in ("fedavg", "scaffold", "sem"):
        assert Method.parse(written).advance == ServerSGD()
        assert str(Method.parse(written)) == written
    assert str(Method.parse("sem+server_sgd(eta=0.5)")) == "sem+server_sgd(eta=0.5)"


def test_a_step_backwards_is_refused():
    """eta is above 0."""
    with pytest.raises(InputError, match="eta of server_sgd must be above 0, not -1"):
        ServerSGD(eta=-1)

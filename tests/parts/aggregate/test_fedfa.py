"""FedFA by hand."""

from __future__ import annotations

from math import log2

import pytest

from by_hand import FakeNet, numbers, update
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.aggregate import FedFA
from unskew.testing.toy_federation import play


def landed(accuracy, clients=(4, 9), deltas=((1.0, 0.0), (0.0, 1.0)), lr=0.1):
    found = update([list(d) for d in deltas], [1] * len(clients), clients=clients, lr=[lr] * len(clients))
    found.probes = {"accuracy": numbers(*accuracy)}
    return found


def step(part, memory, answers):
    change, memory = part.merge({"w": numbers(0.0, 0.0)}, answers, memory, ("w",))
    return change["w"].tolist(), memory


def test_weights_from_accuracy_alone():
    """beta 0, gamma 0, eta 0; accuracies 0.6 and 0.2 are shares 3/4 and 1/4.

    -log2(0.75) = 0.41504, -log2(0.25) = 2, each of 2.41504: weights 0.17185 and 0.82815.
    """
    w, _ = step(FedFA(0, 0, 0), FedFA().init_server(FakeNet()), landed((0.6, 0.2)))
    assert w == pytest.approx([0.171853, 0.828147], abs=3e-6)


def test_weights_from_frequency_alone():
    """beta 1: client 4 has taken part twice, client 9 once: shares 2/3 and 1/3 of the cohort's sum.

    -log2(1 - 2/3) = 1.58496 and -log2(1 - 1/3) = 0.58496, of 2.16993: weights 0.73042 and 0.26958.
    """
    part = FedFA(1, 0, 0)
    _, memory = step(part, part.init_server(FakeNet()), landed((1.0,), (4,), ((0.0, 0.0),)))
    w, memory = step(part, memory, landed((0.5, 0.5)))
    assert w == pytest.approx([0.730424, 0.269576], abs=1e-5)
    assert memory["ids"].tolist() == [4, 9]
    assert memory["times"].tolist() == [2, 1]


def test_half_of_each():
    """beta 0.5 in the first round: equal frequencies 1/2, so weights are the mean of 1/2 and the accuracies'."""
    w, _ = step(FedFA(0.5, 0, 0), FedFA().init_server(FakeNet()), landed((0.6, 0.2)))
    assert w == pytest.approx([(0.171853 + 0.5) / 2, (0.828147 + 0.5) / 2], abs=3e-6)


def test_the_servers_momentum():
    """Equal weights, deltas (2, 0) and (0, 2): w' - w = (1, 1). gamma 0.9, eta = lr = 0.5.

    m = 0.1 (1, 1); w = (1, 1) - 0.5 x 0.1 = 0.95. Again from w = 0: m = 0.9 x 0.1 + 0.1 = 0.19, w = 0.905.
    """
    part, answers = FedFA(), landed((0.5, 0.5), deltas=((2.0, 0.0), (0.0, 2.0)), lr=0.5)
    w, memory = step(part, part.init_server(FakeNet()), answers)
    assert w == pytest.approx([0.95, 0.95])
    w, memory = step(part, memory, answers)
    assert memory["momentum"]["w"].tolist() == pytest.approx([0.19, 0.19])
    assert w == pytest.approx([0.905, 0.905])


def test_sems_setting_weighs_by_frequency_and_holds_back_a_thousandth():
    """fedfa(beta=1, gamma=0) at lr 0.001: m is the whole step, of which 0.001 is taken back."""
    answers = landed((0.9, 0.1), deltas=((2.0, 0.0), (0.0, 2.0)), lr=0.001)
    w, _ = step(FedFA(beta=1, gamma=0), FedFA().init_server(FakeNet()), answers)
    assert w == pytest.approx([0.999, 0.999])


def test_one_client_and_nobody_right():
    """A single client has all the weight; where nobody is right all are equally wrong."""
    w, _ = step(FedFA(0.5, 0, 0), FedFA().init_server(FakeNet()), landed((0.7,), (3,), ((1.0, 2.0),)))
    assert w == pytest.approx([1.0, 2.0])
    w, _ = step(FedFA(0, 0, 0), FedFA().init_server(FakeNet()), landed((0.0, 0.0)))
    assert w == pytest.approx([0.5, 0.5])


def test_the_epsilons_are_those_of_the_reference():
    """A client that is never right: -log2(1e-6) = 19.93 against -log2(1 + 1e-6), about 0."""
    w, _ = step(FedFA(0, 0, 0), FedFA().init_server(FakeNet()), landed((1.0, 0.0)))
    least, most = -log2(1 + 1e-6), -log2(1e-6)
    assert w == pytest.approx([least / (least + most), most / (least + most)], abs=1e-12)


def test_only_clients_that_took_part_are_remembered():
    """Three rounds of four of a hundred clients: at most twelve numbers."""
    from unskew.testing.toy_federation import tiny

    played = play(Method.parse("fedfa"), tiny(sizes=[3] * 100))
    memory = played.state.server["fedfa"]
    assert len(memory["ids"]) <= 12
    assert int(memory["times"].sum()) == 12


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedfa(beta=1.5)", "beta of fedfa is a share from 0 to 1, not 1.5"),
        ("fedfa(gamma=1)", "gamma of fedfa must be at least 0 and below 1, not 1.0"),
        ("fedfa(eta=-1)", "eta of fedfa must be at least 0, not -1.0"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence


@pytest.mark.parametrize("method", ["fedfa", "fedfv", "fedprox(adaptive=true)"])
def test_what_clients_measure_is_told_in_four_bytes_each(method):
    """An accuracy or a loss beside the model; four clients a round."""
    up = play(Method.parse(method), rounds=1).lines[0]["bytes"]["up"]
    plain = play(Method.parse("fedavg"), rounds=1).lines[0]["bytes"]["up"]
    assert up == plain | {"probes": 4 * 4}

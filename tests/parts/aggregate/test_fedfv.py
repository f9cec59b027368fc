"""FedFV by hand; models move by deltas, gradients are their negatives."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from by_hand import FakeNet, numbers, update
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.aggregate import FedAvg, FedFV
from unskew.testing.toy_federation import play

ONE, TWO = [1.0, 0.0], [-1.0, 1.0]  # their product is -1: a conflict


def landed(deltas, losses, clients=None):
    found = update(deltas, [1] * len(deltas), clients=clients)
    found.probes = {"loss": numbers(*losses)}
    return found


def step(part, answers, memory=None):
    memory = part.init_server(FakeNet()) if memory is None else memory
    change, memory = part.merge({"w": numbers(0.0, 0.0)}, answers, memory, ("w",))
    return change["w"].tolist(), memory


def test_two_gradients_in_conflict_are_projected_on_each_other():
    """g1 = (1, 0), g2 = (-1, 1), g1.g2 = -1.

    g1' = g1 + g2 / 2 = (0.5, 0.5) and g2' = g2 + g1 = (0, 1), each against the other's original; their mean is
    (0.25, 0.75), of length sqrt(0.625). The plain mean (0, 0.5) has length 0.5: (0.25, 0.75) x 0.5 / sqrt(0.625).
    """
    w, _ = step(FedFV(alpha=0, tau=0), landed([ONE, TWO], [0.1, 0.2]))
    assert w == pytest.approx([0.25 * 0.5 / 0.625**0.5, 0.75 * 0.5 / 0.625**0.5])


def test_a_weight_may_be_one_number():
    """The same two gradients, as a first weight of one number and a second one in a row: the same step."""
    answers, apart = landed([ONE, TWO], [0.1, 0.2]), {}
    for tree in ("base", "params", "moved"):
        w = getattr(answers, tree)["w"]
        apart[tree] = {"a": w[:, 0], "b": w[:, 1:]}
    zero = {"a": torch.zeros((), dtype=torch.float64), "b": numbers(0.0)}
    net = SimpleNamespace(initial=zero, trainable=("a", "b"))
    part = FedFV(alpha=0, tau=0)
    change, _ = part.merge(zero, replace(answers, **apart), part.init_server(net), net.trainable)
    whole, _ = step(part, landed([ONE, TWO], [0.1, 0.2]))
    assert [change["a"].item(), change["b"].item()] == pytest.approx(whole)


def test_the_share_with_the_largest_loss_is_kept_as_it_is():
    """alpha = 0.5 spares g2, whose loss is larger: the mean of (0.5, 0.5) and (-1, 1) is (-0.25, 0.75)."""
    w, _ = step(FedFV(alpha=0.5, tau=0), landed([ONE, TWO], [0.1, 0.2]))
    assert w == pytest.approx([-0.25 * 0.5 / 0.625**0.5, 0.75 * 0.5 / 0.625**0.5])


def test_all_spared_is_the_plain_mean():
    """alpha = 1 keeps everyone."""
    assert step(FedFV(alpha=1, tau=0), landed([ONE, TWO], [0.1, 0.2]))[0] == [0.0, 0.5]


def test_projections_go_in_ascending_order_of_loss():
    """g = (1, 0) against h = (-1, 1) and k = (-1, -2), in the order of their losses.

    h first: g + h/2 = (0.5, 0.5), then k: product -1.5, + 1.5/5 k = (0.2, -0.1).
    k first: g + k/5 = (0.8, -0.4), then h: product -1.2, + 0.6 h = (0.2, 0.2).
    """
    h, k = [-1.0, 1.0], [-1.0, -2.0]
    for losses, mine in (([0.0, 1.0, 2.0], [0.2, -0.1]), ([0.0, 2.0, 1.0], [0.2, 0.2])):
        part = FedFV(alpha=0.7, tau=0)  # ceil(2 x 0.3) = 1: the two largest losses are spared
        w, _ = step(part, landed([ONE, h, k], losses))
        mean = numbers(mine[0] - 2, mine[1] - 1) / 3
        plain = numbers(-1.0, -1.0) / 3
        assert w == pytest.approx((mean * plain.norm() / mean.norm()).tolist())


def test_past_gradients_in_conflict_are_projected_away():
    """Round 1: client 5 goes (-1, 1). Round 2: client 3 goes (1, 0), which conflicts: (1, 0) + (-1, 1)/2 = (0.5, 0.5).

    The plain mean has length 1: the step is (1, 1) / sqrt(2).
    """
    part = FedFV(alpha=0, tau=1)
    _, memory = step(part, landed([TWO], [1.0], [5]))
    w, memory = step(part, landed([ONE], [1.0], [3]), memory)
    assert w == pytest.approx([0.5**0.5, 0.5**0.5])
    assert memory["ids"].tolist() == [3, 5]
    _, memory = step(part, landed([ONE], [1.0], [3]), memory)
    assert memory["ids"].tolist() == [3]  # client 5 was last seen two rounds ago


def test_a_client_seen_again_counts_as_present():
    """Its old gradient is forgotten, so nothing is left to conflict with."""
    part = FedFV(alpha=0, tau=1)
    _, memory = step(part, landed([TWO], [1.0], [3]))
    assert step(part, landed([ONE], [1.0], [3]), memory)[0] == ONE


def test_the_past_counts_once_tau_rounds_have_gone():
    """tau = 2: in the second round only one is past, and it is not yet looked at."""
    part = FedFV(alpha=0, tau=2)
    _, memory = step(part, landed([TWO], [1.0], [5]))
    w, memory = step(part, landed([ONE], [1.0], [3]), memory)
    assert w == ONE
    assert step(part, landed([ONE], [1.0], [4]), memory)[0] != ONE


def test_tau_zero_keeps_nothing():
    """Without past rounds no gradient waits on the server."""
    _, memory = step(FedFV(tau=0), landed([ONE, TWO], [0.1, 0.2]))
    assert len(memory["ids"]) == 0
    assert len(memory["gradients"]["w"]) == 0


def test_without_conflicts_it_is_uniform_fedavg_to_the_last_bit():
    """Gradients in one quadrant agree: no projection, no rescaling."""
    answers = landed([[0.1, 0.7], [0.3, 0.2], [0.9, 0.4]], [3.0, 1.0, 2.0])
    w, _ = step(FedFV(), answers)
    plain, _ = FedAvg(uniform=True).merge({"w": numbers(0.0, 0.0)}, answers, {}, ("w",))
    assert w == plain["w"].tolist()


def test_one_client_is_a_plain_round():
    """A run of one client has nobody to conflict with."""
    from unskew.testing.toy_federation import tiny

    alone = tiny(sizes=[6])
    assert play(Method.parse("fedfv"), alone).hash == play(Method.parse("fedavg"), alone).hash


def test_its_length_is_that_of_the_plain_mean():
    """Whatever is projected, ||step|| = ||mean of deltas||."""
    rng = torch.Generator().manual_seed(0)
    deltas = torch.randn(6, 2, generator=rng, dtype=torch.float64)
    w, _ = step(FedFV(alpha=0.1, tau=0), landed(deltas.tolist(), [3.0, 1.0, 2.0, 6.0, 5.0, 4.0]))
    assert float(numbers(*w).norm()) == pytest.approx(float(deltas.mean(0).norm()))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("fedfv(alpha=2)", "alpha of fedfv is a share of clients from 0 to 1, not 2.0"),
        ("fedfv(tau=-1)", "tau of fedfv must be at least 0, not -1"),
    ],
)
def test_bad_input_is_one_sentence(text, sentence):
    """What is wrong, where, and what to write instead."""
    with pytest.raises(InputError) as told:
        Method.parse(text)
    assert str(told.value) == sentence


def test_gradients_that_cancel_make_no_step():
    """(3, -3) and (-1, 1): each loses all of itself against the other, and 0 x |mean| / 0 is no direction.

    In float32 what is left is rounding, and scaling it up to the mean's length would step into noise.
    """
    for a, b in ((3.0, 1.0), (0.1, 0.7)):
        w, _ = step(FedFV(alpha=0, tau=0), landed([[a, -a], [-b, b]], [0.1, 0.2]))
        assert w == [0.0, 0.0]

"""The moments of FedAdagrad, FedAdam and FedYogi (Reddi et al., algorithm 2), worked by hand."""

from __future__ import annotations

import pytest

from by_hand import FakeNet, numbers
from unskew.core.method import Method
from unskew.errors import InputError
from unskew.parts.advance import FedAdagrad, FedAdam, FedYogi


def two_rounds(part, first, second):
    """Both moments and the model, after each of two changes from (0, 0)."""
    w, memory, seen = {"w": numbers(0.0, 0.0)}, part.init_server(FakeNet()), []
    for change in (first, second):
        w, memory = part.step(w, {"w": numbers(*change)}, memory)
        seen.append((memory["m"]["w"].tolist(), memory["v"]["w"].tolist(), w["w"].tolist()))
    return seen


def test_fedadam_by_hand():
    """beta1 = beta2 = 0.5, tau = 1, eta = 1; v starts at tau^2 = 1, m at 0, and nothing corrects their bias.

    Changes of (4, 0): m = (2, 0), v = 0.5 + 0.5 (16, 0) = (8.5, 0.5), w = m / (sqrt v + 1) = (0.510571, 0).
    Then (2, 2): m = (2, 1), v = 0.5 (8.5, 0.5) + 0.5 (4, 4) = (6.25, 2.25), w += (2/3.5, 1/2.5) = (1.082, 0.4).
    """
    one, two = two_rounds(FedAdam(eta=1, beta1=0.5, beta2=0.5, tau=1), (4.0, 0.0), (2.0, 2.0))
    assert one[:2] == ([2.0, 0.0], [8.5, 0.5])
    assert one[2] == pytest.approx([2 / (8.5**0.5 + 1), 0.0])
    assert two[:2] == ([2.0, 1.0], [6.25, 2.25])
    assert two[2] == pytest.approx([2 / (8.5**0.5 + 1) + 2 / 3.5, 0.4])


def test_fedadagrad_by_hand():
    """beta1 = 0, tau = 1, eta = 0.5: v = 1 + 8 = 9 after a change of sqrt 8, then 9 + 16 = 25 after one of 4.

    w = 0.5 sqrt 8 / (3 + 1), then + 0.5 x 4 / (5 + 1). The second weight, which never changes, keeps v = 1 and stays.
    """
    one, two = two_rounds(FedAdagrad(eta=0.5, tau=1), (8**0.5, 0.0), (4.0, 0.0))
    assert one[1] == pytest.approx([9.0, 1.0])
    assert one[2] == pytest.approx([8**0.5 / 8, 0.0])
    assert two[0] == [4.0, 0.0]
    assert two[1] == pytest.approx([25.0, 1.0])
    assert two[2] == pytest.approx([8**0.5 / 8 + 2 / 6, 0.0])


def test_fedyogi_by_hand():
    """beta1 = 0, beta2 = 0.75, tau = 2, eta = 1; v starts at 4.

    Changes of (4, 1): squares (16, 1) are above and below v, so v = 4 + 16/4 = 8 and 4 - 1/4 = 3.75.
    w = 4 / (sqrt 8 + 2) and 1 / (sqrt 3.75 + 2). A square equal to v moves nothing.
    """
    part = FedYogi(eta=1, beta1=0, beta2=0.75, tau=2)
    one, _ = two_rounds(part, (4.0, 1.0), (0.0, 0.0))
    assert one[:2] == ([4.0, 1.0], [8.0, 3.75])
    assert one[2] == pytest.approx([4 / (8**0.5 + 2), 1 / (3.75**0.5 + 2)])
    assert two_rounds(part, (2.0, -2.0), (2.0, -2.0))[1][1] == [4.0, 4.0]


def test_a_yogi_falls_slower_than_an_adam():
    """After a large change come tiny ones: Adam forgets its second moment, Yogi keeps it."""
    found = {}
    for part in (FedAdam(), FedYogi()):
        w, memory = {"w": numbers(0.0, 0.0)}, part.init_server(FakeNet())  # type: ignore[arg-type]
        for change in [1.0] + [1e-4] * 100:
            w, memory = part.step(w, {"w": numbers(change, 0.0)}, memory)
        found[part.name] = float(memory["v"]["w"][0])
    assert found["fedyogi"] == pytest.approx(0.01, rel=1e-3)
    assert found["fedadam"] < 0.004


def test_the_papers_defaults():
    """beta1 0.9 and beta2 0.99 for Adam and Yogi, no momentum for Adagrad, tau 0.001; v starts at tau squared."""
    assert [(p.beta1, p.beta2, p.tau) for p in (FedAdam(), FedYogi())] == [(0.9, 0.99, 0.001)] * 2
    assert (FedAdagrad().beta1, FedAdagrad().tau) == (0.0, 0.001)
    assert FedAdam().init_server(FakeNet())["v"]["w"].tolist() == [1e-6, 1e-6]  # type: ignore[arg-type]


def test_values_by_place_are_in_the_order_of_the_paper():
    """eta, then both shares, then tau."""
    assert Method.parse("fedadam(0.1, 0.8, 0.95, 0.01)").advance == FedAdam(
        eta=0.1, beta1=0.8, beta2=0.95, tau=0.01
    )


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        (FedAdam, {"beta2": 1}, "beta2 of fedadam must be at least 0 and below 1, not 1"),
        (FedYogi, {"beta1": -0.1}, "beta1 of fedyogi must be at least 0 and below 1, not -0.1"),
        (FedAdagrad, {"tau": 0}, "tau of fedadagrad must be above 0, not 0"),
        (FedAdam, {"eta": 0}, "eta of fedadam must be above 0, not 0"),
    ],
)
def test_what_is_refused(kind, given, said):
    """Shares from 0 to below 1, and steps above 0."""
    with pytest.raises(InputError, match=said):
        kind(**given)

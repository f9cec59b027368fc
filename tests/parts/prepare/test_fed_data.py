"""FedData by hand: everybody gives a share, everybody gets what the others gave."""

from __future__ import annotations

import numpy as np
import pytest

from by_hand import holding, moved
from unskew.core.method import Method
from unskew.core.roster import Roster
from unskew.errors import InputError
from unskew.parts.prepare import CentralSharing, FedData
from unskew.testing.toy_federation import play

pytestmark = pytest.mark.filterwarnings("ignore:.*share nothing by fed_data")

FEDERATION = holding([[20, 0], [0, 10], [5, 4]])


def test_a_tenth_of_everybodys_data_goes_to_all_others():
    """Of 20, 10 and 9 samples floor(0.1 n) = 2, 1 and 0 are given; clients hold 20 + 1, 10 + 2 and 9 + 3 after.

    Client 0 gives two of class 0 and client 1 one of class 1, so counts are (20, 1), (2, 10) and (7, 5).
    """
    after = moved(FedData(0.1), FEDERATION, 3, 0)
    known = after.roster
    assert known.counts.tolist() == [[20, 1], [2, 10], [7, 5]]
    assert known.sizes.tolist() == known.weigh.tolist() == known.budget.tolist() == [21, 12, 12]
    (sharing,) = known.sharing
    assert [(t.sender, t.receivers, t.samples) for t in sharing.transfers] == [
        (0, (-1,), 2),
        (1, (-1,), 1),
        (-1, (0, 1, 2), 3),
    ]
    given = set(after.samples(2)[9:])
    assert [len(given & set(FEDERATION.samples(k))) for k in range(3)] == [2, 1, 0]
    assert set(after.samples(1)[10:]) == given - set(FEDERATION.samples(1))


def test_epochs_and_weights_may_count_a_clients_own_samples():
    """The lists grow; the budget or the weight does not."""
    own = moved(FedData(0.1, weigh="own", budget="own"), FEDERATION, 3, 0).roster
    assert own.sizes.tolist() == [21, 12, 12]
    assert own.weigh.tolist() == own.budget.tolist() == [20, 10, 9]


def test_the_log_lists_what_was_given():
    """36 x 8 + 1 bits a sample; system EMD from p_g = (25, 14)/39 before and after."""
    line = play(Method.of(FedData(0.1)), FEDERATION).lines[0]
    counts = np.array([[20, 1], [2, 10], [7, 5]])
    p = np.array([25, 14]) / 39
    after = np.abs(counts - counts.sum(1, keepdims=True) * p).sum() / 45
    assert line["fed_data"]["emd_after"] == pytest.approx(after)
    assert line["fed_data"]["collected"] == 3
    assert [(s["from"], s["to"], s["samples"]) for s in line["shared"]] == [
        (0, ["server"], 2),
        (1, ["server"], 1),
        ("server", "all", 3),
    ]
    assert line["bytes"]["up"]["samples"] == -(-2 * 289 // 8) + -(-289 // 8)
    assert line["bytes"]["down"]["samples"] == 3 * -(-3 * 289 // 8)


def test_nothing_to_share_is_fedavg():
    """Nobody has 1/share samples: nothing is to be moved."""
    assert FedData(0.01).transfers(Roster.of(FEDERATION), 3, 0) is None
    assert "shared" not in play(Method.of(FedData(0.01)), FEDERATION).lines[0]


def test_everything_shared_is_everything_everywhere():
    """share = 1: every client holds all samples, each once."""
    after = moved(FedData(1.0), FEDERATION, 3, 0)
    for k in range(3):
        assert sorted(after.samples(k)) == list(range(39))


def test_bad_input_is_one_sentence():
    """A share lies between 0 and 1."""
    with pytest.raises(InputError) as told:
        FedData(1.5)
    assert str(told.value) == "share of fed_data is a share of a client's data, 0 to 1, not 1.5"


def test_a_share_of_nothing_is_said():
    """floor(0.1 x 9) = 0 of one client; floor(0.01 n) of none; 0.001 of 39 samples is none either."""
    with pytest.warns(
        UserWarning, match=r"^1 of 3 clients hold fewer than 10 samples and share nothing by fed_data"
    ):
        FedData(0.1).check(FEDERATION, 3)
    with pytest.warns(UserWarning, match="nothing is shared at all: write a larger share$"):
        FedData(0.01).check(FEDERATION, 3)
    with pytest.warns(UserWarning, match=r"central_sharing\(beta=0.001\) of 39 samples is none at all"):
        CentralSharing(0.001).check(FEDERATION, 3)

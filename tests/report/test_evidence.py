"""What the book says of data like the user's."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.report.diagnosis import diagnose
from unskew.report.evidence import Setting, book, form, gather, held_out


def setting(dataset: str, emd: float, size: float, **gains: float) -> Setting:
    told = {name: {"mean": points, "half": 0.5, "seeds": 3} for name, points in gains.items()}
    return Setting("made", dataset, f"{dataset} at {emd}", dataset, emd, 0.5, size, told)


NEAR, OTHER = (
    setting("near", 0.8, 100, sem=2.0, fedprox=-1.0),
    setting("other", 0.6, 100, sem=4.0, scaffold=1.0),
)


def test_distance_counts_steps_of_emd_sparsity_and_size() -> None:
    """A fifth of the EMD is one step, three times the samples another: both together are the root of two."""
    assert NEAR.apart(0.8, 0.5, 100) == 0
    assert NEAR.apart(0.6, 0.5, 100) == pytest.approx(1)
    assert NEAR.apart(0.6, 0.5, 300) == pytest.approx(2**0.5)


def test_nearer_settings_count_more() -> None:
    """sem: weights 1 and 1/e of 2 and 4 points; scaffold was run in the farther one alone."""
    found = gather(0.8, 0.5, 100, [OTHER, NEAR])
    assert [s.said for _, s in found.near] == ["near at 0.8", "other at 0.6"]
    expected = {name: points for name, points, _ in found.expected}
    assert expected["sem"] == pytest.approx((2 + 4 / np.e) / (1 + 1 / np.e))
    assert expected["scaffold"] == pytest.approx(1)
    assert found.recommended == "sem"
    assert (
        "near at 0.8 (0.0 steps away: near); sem gained most around there, about +2.5 points"
        in found.headline
    )


def test_where_nothing_is_near_it_says_so() -> None:
    """And recommends nothing."""
    found = gather(0.0, 0.5, 100_000, [NEAR, OTHER])
    assert found.recommended is None
    assert found.near == ()
    assert found.headline.startswith("The book has no setting like this data")


def test_what_lost_everywhere_is_not_recommended() -> None:
    """The largest of the losses is no recommendation."""
    assert gather(0.8, 0.5, 100, [setting("a", 0.8, 100, fedprox=-1.0)]).recommended is None


def test_one_seed_counts_half() -> None:
    """A gain without an interval is believed by half."""
    alone = Setting("e", "g", "s", "d", 0.8, 0.5, 100, {"sem": {"mean": 4.0, "half": None, "seeds": 1}})
    assert gather(0.8, 0.5, 100, [alone]).expected == (("sem", 2.0, 1),)


def test_a_form_knows_no_layer() -> None:
    """So that what was found with one model speaks for another; other values stay."""
    assert form("flea(conv2, variant=code)") == "flea(variant=code)"
    assert form("flea(block0)") == "flea"
    assert form("sem(pairing=emd)") == "sem(pairing=emd)"


def test_a_held_out_data_set_takes_no_part_in_its_own_recommendation() -> None:
    """near is recommended sem because of other; scaffold, run there alone, is not run here."""
    judged = {one["setting"]: one for one in held_out([NEAR, OTHER])}
    assert judged["near at 0.8"]["recommended"] == "sem"
    assert judged["near at 0.8"]["gain"] == 2.0
    alone = held_out([NEAR, setting("near", 0.75, 100, fedprox=3.0)])
    assert all(one["recommended"] is None and one["gain"] is None for one in alone)


def test_the_shipped_book_speaks_to_a_diagnosis() -> None:
    """Forty clients of 36 samples of three classes are what FLea's digits were."""
    counts = np.zeros((40, 10), int)
    for k in range(40):
        counts[k, [k % 10, (k + 1) % 10, (k + 2) % 10]] = 12
    told = diagnose(counts, dataset="made").as_dict()["evidence"]
    assert told["near"][0]["exhibit"] == "flea-digits"
    assert told["near"][0]["steps"] < 0.1
    assert {"mean", "half", "seeds"} <= set(told["near"][0]["gains"]["fed_data"])
    assert len(book()) >= 15


def test_one_client_with_everything_is_like_nothing_in_the_book() -> None:
    """It says so in one sentence."""
    told = diagnose(np.full((1, 10), 1000), dataset="made").evidence
    assert told.near == ()

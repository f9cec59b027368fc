"""What the book says of data like the user's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unskew.report.diagnosis import diagnose
from unskew.report.evidence import Evidence, Likeness, Setting, book, form, gather, held_out, points, told

Gain = tuple[float, float | None]


def setting(dataset: str, emd: float, size: float, **gains: float | Gain) -> Setting:
    """With gains of three seeds ± 0.5, or as said; a gain without an interval is one seed's."""
    told = {}
    for name, gain in gains.items():
        mean, half = gain if isinstance(gain, tuple) else (gain, 0.5)
        told[name] = {"mean": mean, "half": half, "seeds": 1 if half is None else 3}
    return Setting("made", dataset, f"{dataset} at {emd}", dataset, emd, 0.5, size, 10, told)


def around(*settings: Setting) -> Evidence:
    """The evidence for data at 0.8, with half of the pairs empty and 100 samples a client."""
    return gather(Likeness(0.8, 0.5, 100, 10), settings)


NEAR, OTHER = (
    setting("near", 0.8, 100, sem=2.0, fedprox=-1.0),
    setting("other", 0.6, 100, sem=4.0, scaffold=1.0),
)
FAR_WEIGHT = 1 / np.e  # of OTHER, one step away


def test_distance_counts_steps_of_emd_sparsity_size_and_classes() -> None:
    """A fifth of the EMD is one step, three times the samples or the classes another: two are the root of two."""
    assert NEAR.like.apart(Likeness(0.8, 0.5, 100, 10)) == 0
    assert NEAR.like.apart(Likeness(0.6, 0.5, 100, 10)) == pytest.approx(1)
    assert NEAR.like.apart(Likeness(0.6, 0.5, 300, 10)) == pytest.approx(2**0.5)
    assert NEAR.like.apart(Likeness(0.6, 0.5, 100, 30)) == pytest.approx(2**0.5)


def test_nearer_settings_count_more() -> None:
    """sem: weights 1 and 1/e of 2 and 4 points, each ± 0.5."""
    found = around(OTHER, NEAR)
    assert [s.said for _, s in found.near] == ["near at 0.8", "other at 0.6"]
    sem = next(e for e in found.expected if e.method == "sem")
    assert sem.mean == pytest.approx((2 + 4 * FAR_WEIGHT) / (1 + FAR_WEIGHT))
    assert sem.half == pytest.approx(0.5 * np.hypot(1, FAR_WEIGHT) / (1 + FAR_WEIGHT))
    assert sem.sure == pytest.approx(sem.mean - sem.half)
    assert found.recommended == "sem"


def test_a_setting_where_a_method_was_not_run_counts_as_no_gain() -> None:
    """scaffold: (1 - 0.5) points of the farther setting alone, which has 1/e of the weight 1 + 1/e."""
    scaffold = next(e for e in around(OTHER, NEAR).expected if e.method == "scaffold")
    assert scaffold.mean == pytest.approx(1)
    assert scaffold.sure == pytest.approx(0.5 * FAR_WEIGHT / (1 + FAR_WEIGHT))


def test_a_wide_interval_far_away_does_not_win_over_sure_gains_nearby() -> None:
    """18 ± 22 points in one setting a step away, against 12 ± 4 here and there."""
    near = setting("a", 0.8, 100, fed_data=(12.0, 4.0), fedprox=(1.0, 0.5))
    far = setting("b", 0.6, 100, ccvr=(18.3, 21.9), fed_data=(10.0, 4.0))
    found = around(near, far)
    assert found.recommended == "fed_data"
    assert next(e for e in found.expected if e.method == "ccvr").sure < 0


def test_the_sentence_says_where_its_numbers_are_from() -> None:
    """Each setting with its own interval and distance."""
    assert around(OTHER, NEAR).headline == (
        "The nearest setting of the book is near at 0.8, 0.0 steps away, which is near. Of the methods run near this "
        "data, surest to gain over FedAvg, in points: sem, +2.0 ± 0.5 in near at 0.8 (0.0 steps away), +4.0 ± 0.5 in "
        "other at 0.6 (1.0 steps away). It discloses its half-trained model to another client. None that discloses "
        "nothing beyond model updates is sure to gain."
    )


def test_what_was_run_in_far_settings_alone_is_not_recommended() -> None:
    """A step and a half away is within reach, but not near; and where no setting is near, it says so."""
    far = setting("far", 0.5, 100, fed_data=20.0)
    assert around(setting("a", 0.8, 100, fedprox=1.0), far).recommended == "fedprox"
    assert around(far).recommended is None
    assert around(far).headline == (
        "The nearest setting of the book is far at 0.5, 1.5 steps away: only roughly like this, and too far to "
        "recommend a method from."
    )


def test_what_is_recommended_is_in_the_table_of_its_settings() -> None:
    """Also where others gained more there: fedprox is fourth of five."""
    crowd = setting(
        "a", 0.8, 100, sem=(9, None), fedmix=(8, None), flea=(7, None), fedprox=1.0, scaffold=-1.0
    )
    found = around(crowd)
    assert found.recommended == "fedprox"
    assert "fedprox +1.0 ± 0.5" in found.rows()[0][2]


def test_what_discloses_is_said_and_the_best_that_does_not_stands_beside_it() -> None:
    """fed_data sends raw samples; fedprox gained less and sends nothing but updates."""
    found = around(setting("a", 0.8, 100, fed_data=12.0, fedprox=3.0, fedlc=2.0))
    assert found.headline.endswith(
        "It discloses raw samples to the server, raw samples to every client. Surest of those that disclose nothing "
        "beyond model updates: fedprox, +3.0 ± 0.5 in a at 0.8 (0.0 steps away)."
    )
    told = found.as_dict()
    assert told["discloses"] == ["raw samples to the server", "raw samples to every client"]
    assert told["recommended_disclosing_nothing"] == "fedprox"
    alone = around(setting("a", 0.8, 100, fedprox=3.0))
    assert alone.headline.endswith("It discloses nothing beyond model updates.")


def test_where_nothing_is_near_it_says_so_and_what_sets_it_apart() -> None:
    """And recommends nothing."""
    found = gather(Likeness(0.8, 0.5, 100_000, 10), [NEAR, OTHER])
    assert found.recommended is None
    assert found.near == ()
    assert found.headline == (
        "The book has no setting like this data: the nearest is near at 0.8, 6.3 steps away, most by the samples of a "
        "client. So nothing that was measured speaks for or against a method here."
    )
    many = gather(Likeness(0.8, 0.5, 100, 1000), [NEAR, OTHER])
    assert "4.2 steps away, most by the number of classes" in many.headline


def test_nothing_skewed_is_near_where_skew_is_no_more_than_chance() -> None:
    """However many pairs are empty by chance, and however little the skew there is."""
    found = gather(Likeness(0.0, 0.5, 100, 10), [setting("a", 0.1, 100, sem=2.0)])
    assert found.near == ()
    assert "its skew is no more than chance, and what was measured is skewed" in found.headline
    assert gather(Likeness(0.0, 0.5, 100, 10), [setting("a", 0.0, 100, sem=2.0)]).recommended == "sem"


def test_a_thousand_classes_by_chance_are_like_nothing_in_the_book() -> None:
    """Forty samples of a thousand classes have a large EMD whoever deals them."""
    dealt = np.random.default_rng(0).integers(0, 1000, (100, 40))
    told = diagnose(np.stack([np.bincount(row, minlength=1000) for row in dealt]), dataset="made")
    assert told.headline.startswith("Label skew is no more than chance (EMD 1.9")
    assert told.evidence.near == ()


def test_what_lost_everywhere_is_not_recommended() -> None:
    """The largest of the losses is no recommendation."""
    found = around(setting("a", 0.8, 100, fedprox=-1.0))
    assert found.recommended is None
    assert found.headline.endswith("No method that was run near this data is sure to gain over FedAvg.")


def test_one_seed_makes_nothing_sure() -> None:
    """A gain without an interval is taken as plus or minus itself."""
    found = around(setting("a", 0.8, 100, sem=(4.0, None)))
    assert [(e.method, e.mean, e.half, e.sure) for e in found.expected] == [("sem", 4.0, 4.0, 0.0)]
    assert found.recommended is None


def test_what_does_not_fit_is_passed_over_and_said_to_be() -> None:
    """By a part: sem+fedprox is surest and sem does not fit; scaffold, which does, is next."""
    found = around(setting("a", 0.8, 100, **{"sem+fedprox": 9.0, "scaffold": 4.0}))
    assert found.recommended == "sem+fedprox"
    fitting = replace(found, unfit=frozenset({"sem"}))
    assert fitting.recommended == "scaffold"
    assert "does not fit here, see above: sem+fedprox." in fitting.headline
    nothing = replace(found, unfit=frozenset({"sem", "scaffold"}))
    assert nothing.recommended is None
    assert "No other method that was run near this data is sure to gain over FedAvg." in nothing.headline


def test_of_many_that_are_passed_over_the_rest_is_counted() -> None:
    found = around(setting("a", 0.8, 100, **{f"sem+fedprox(mu={mu})": 10.0 - mu for mu in range(1, 6)}))
    said = replace(found, unfit=frozenset({"sem"})).headline
    assert "see above: sem+fedprox(mu=1), sem+fedprox(mu=2), sem+fedprox(mu=3) and 2 more." in said


def test_a_gain_that_rounds_to_nothing_has_no_sign() -> None:
    assert points({"mean": -0.04, "half": 0.2}) == "0.0 ± 0.2"
    assert told({"sem": {"mean": -0.04, "half": 0.2, "seeds": 2}}, 4) == "sem 0.0 ± 0.2 (2 seeds)"
    assert points({"mean": -0.06, "half": None}) == "-0.1 (1 seed)"


def test_a_form_has_a_word_for_the_layer() -> None:
    """So that what was found with one model speaks for another, and can be written; other values stay."""
    assert form("flea(conv2, variant=code)") == "flea(LAYER, variant=code)"
    assert form("flea(block0)") == "flea(LAYER)"
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


def test_the_shipped_book_recommends_what_was_measured_nearby() -> None:
    """The digits of FLea's table are nearest: what is recommended was run there."""
    counts = np.zeros((40, 10), int)
    for k in range(40):
        counts[k, [k % 10, (k + 1) % 10, (k + 2) % 10]] = 12
    best = diagnose(counts, dataset="made").evidence.best
    assert best is not None
    assert best.measured[0].setting.exhibit == "flea-digits"


def test_one_client_with_everything_is_like_nothing_in_the_book() -> None:
    """It says so in one sentence."""
    told = diagnose(np.full((1, 10), 1000), dataset="made").evidence
    assert told.near == ()

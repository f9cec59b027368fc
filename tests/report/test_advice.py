"""The advice follows the evidence of the papers."""

from __future__ import annotations

import warnings
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from unskew.core.conditions import CONDITIONS, Planned, check_hand_over
from unskew.core.method import Method
from unskew.core.plan import plan
from unskew.core.slots import Local
from unskew.errors import InputError
from unskew.metrics import skew
from unskew.report import advice as advising
from unskew.report.advice import REMEDIES, Advice, advise
from unskew.report.evidence import Likeness, Setting, gather
from unskew.report.situation import Situation
from unskew.testing.toy_federation import tiny


def advice_for(counts: np.ndarray, **plan: Any) -> dict[str, Advice]:
    """The advice for 50 rounds of 40 clients and 5 epochs of batches of 10, unless ``plan`` says otherwise."""
    usual = {"cohort": 40, "rounds": 50, "epochs": 5, "batch": 10}
    return {advice.part: advice for advice in advise(Situation.of(counts, skew(counts), **(usual | plan)))}


def even(clients: int, each: int, classes: int = 10) -> np.ndarray:
    return np.full((clients, classes), each)


def one_class_each(clients: int, each: int, classes: int = 10) -> np.ndarray:
    counts = np.zeros((clients, classes), int)
    counts[np.arange(clients), np.arange(clients) % classes] = each
    return counts


def skewed_but_complete(clients: int) -> np.ndarray:
    """Every client has 910 of its own class and 10 of each other: EMD 2 (0.91 - 0.1) = 1.62."""
    return one_class_each(clients, 900) + 10


def test_even_and_plentiful_data_needs_no_remedy() -> None:
    """Large clients with equal labels: nothing is to be tried first."""
    assert {a.fit for a in advice_for(even(20, 1000)).values()} <= {"no", "perhaps"}
    assert advice_for(even(20, 1000))["fedaug"].fit == "no"


def test_single_class_clients_call_for_selection_by_label() -> None:
    """Seol & Kim's case 1: choose clients by their labels; oversampling has nothing to balance."""
    advised = advice_for(one_class_each(200, 250))
    assert advised["kld"].fit == "try"
    assert advised["oversample"].fit == "no"
    assert advised["fedaug"].fit == "no"


def test_a_perhaps_for_selection_says_what_speaks_for_it_too() -> None:
    """No client of these holds a single class, and \"0% do\" alone would be a reason against it."""
    found = advice_for(skewed_but_complete(60))["kld"]
    assert (found.fit, found.why) == (
        "perhaps",
        "it evens out the labels of a cohort; but no client holds a single class, and it gained most "
        "where 90% or more did",
    )


def test_complete_but_skewed_clients_call_for_augmentation() -> None:
    """The thesis's case: beyond EMD 1.2 with a few of each class."""
    assert advice_for(skewed_but_complete(20))["fedaug"].fit == "try"


@pytest.mark.parametrize(("whole", "fit"), [(0, "no"), (1, "perhaps")])
def test_fedaug_fills_up_those_alone_who_hold_every_class(whole: int, fit: str) -> None:
    """Of two classes at most half of the pairs can be empty, and who lacks one of them is left as it is."""
    counts = np.vstack([one_class_each(8, 100, classes=2), np.tile([[900, 20]], (2 * whole, 1))])
    advised = advice_for(counts, cohort=4)["fedaug"]
    assert advised.fit == fit
    assert advised.why.startswith("20% of the clients hold every class") == bool(whole)


def test_fedaug_is_not_advised_below_its_range() -> None:
    """At EMD 0.8 unaltered data did better (thesis, figure 5.4)."""
    counts = one_class_each(20, 100) + 15  # 2 (115/250 - 0.1) = 0.72
    assert advice_for(counts)["fedaug"].fit == "no"


def test_scarce_clients_call_for_shared_features_and_pairs() -> None:
    """FLea calls 100 samples a client scarce; SEM trains at two clients."""
    advised = advice_for(even(50, 5))
    assert advised["flea"].fit == "try"
    assert advised["sem"].fit == "try"
    assert advice_for(even(50, 500))["flea"].fit == "no"


@pytest.mark.parametrize(("clients", "fit"), [(10, "no"), (20, "try"), (40, "try")])
def test_phases_need_ten_clients_each(clients: int, fit: str) -> None:
    """Two phases of at least ten active clients (thesis, section 4.6)."""
    advised = advice_for(skewed_but_complete(clients))["phase_shift"]
    assert advised.fit == fit
    if clients >= 20:
        assert f"phase_shift({4 if clients >= 40 else 2})" in advised.why


def test_sharing_samples_needs_a_client_worth_sharing_from() -> None:
    """DACA's 95 + 5: with a few even clients it can help, with none it cannot."""
    without = one_class_each(95, 100)
    assert advice_for(without)["daca"].fit == "no"
    assert advice_for(np.vstack([without, even(5, 10)]))["daca"].fit == "perhaps"


def test_a_lone_client_is_advised_nothing() -> None:
    """One client has no peers, no cohort and no skew, however scarce its samples are."""
    assert {a.fit for a in advice_for(even(1, 1000)).values()} == {"no"}
    assert {a.fit for a in advice_for(even(1, 3)).values()} == {"no"}


def test_where_all_take_part_there_is_nobody_to_choose() -> None:
    assert advice_for(one_class_each(40, 20), cohort=39)["kld"].fit == "try"
    everybody = advice_for(one_class_each(40, 20), cohort=40)["kld"]
    assert everybody.fit == "no"
    assert everybody.why == "all clients take part in every round, so there is none to choose"


def test_skew_by_chance_is_not_called_mild() -> None:
    """Clients of one sample have the largest EMD that there is; their labels are not even."""
    advised = advice_for(one_class_each(40, 1))
    for part in ("fedaug", "daca", "scaffold"):
        assert advised[part].why == "skew is no more than chance here, and it gained where there is more"


def test_a_threshold_is_told_as_it_is_scaled() -> None:
    """Two even classes have EMDs of up to 1, ten of up to 1.8: 1.0 and 1.2 there are 0.56 and 0.67 here."""
    advised = advice_for(np.array([[700, 300], [300, 700]] * 20))
    assert advised["scaffold"].why == "there is little drift to correct below EMD 0.56"
    assert advised["fedaug"].why.startswith("below EMD 0.67 ")


def test_fitting_remedies_come_first() -> None:
    """Try, then perhaps, then no."""
    order = [a.fit for a in advise(Situation.of(one_class_each(50, 20), skew(one_class_each(50, 20))))]
    assert order == sorted(order, key=["try", "perhaps", "no"].index)


def test_every_remedy_says_what_it_needs_discloses_and_has_shown() -> None:
    """No blank entry, and the evidence names a paper."""
    for remedy in REMEDIES:
        assert remedy.needs
        assert remedy.evidence.split(",")[0] in {"SEM", "FLea", "thesis", "Seol & Kim", "DACA"}


def test_availability_is_read_from_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this version can train with is marked; the rest is named all the same."""
    monkeypatch.setattr(advising, "disclosures", lambda: {"sem": ()})
    advised = advice_for(one_class_each(50, 20))
    assert advised["sem"].available
    assert not advised["flea"].available


def test_what_is_disclosed_is_what_the_part_declares() -> None:
    """In the part's own words; nothing is said in others."""
    advised = advice_for(one_class_each(50, 20))
    assert advised["sem"].discloses == "its half-trained model to another client"
    assert advised["daca"].discloses == "label counts, raw samples to peers"
    assert advised["phase_shift"].discloses == "nothing beyond a model update"


# --- the parts' own checks, with what is planned


def test_flea_is_not_advised_where_nobody_could_share() -> None:
    """A tenth of two samples is none."""
    advised = advice_for(one_class_each(50, 2))["flea"]
    assert (advised.fit, advised.why) == (
        "no",
        "50 of 50 clients hold fewer than 10 samples and share nothing by flea(share=0.1); nothing is shared at all: "
        "write a larger share",
    )
    half = np.vstack([one_class_each(10, 2), one_class_each(30, 40)])
    assert advice_for(half)["flea"].fit == "perhaps"


def test_sem_is_not_advised_where_a_visit_is_one_step() -> None:
    """Twenty samples are one batch of 32: half of one step is none. Two epochs, or batches of ten, are two steps."""
    counts = one_class_each(50, 20)
    advised = advice_for(counts, epochs=None, batch=32)["sem"]
    assert advised.fit == "no"
    assert advised.why == (
        "50 of 50 clients take fewer than 2 steps a visit, so the models they begin are trained at one client only; "
        "plan --epochs 2 or --batch 10"
    )
    for settings in ({"epochs": 2, "batch": 32}, {"epochs": 1, "batch": 10}, {"epochs": None, "steps": 2}):
        assert advice_for(counts, **settings)["sem"].fit == "try"
    assert advice_for(counts, cohort=1)["sem"].fit == "no"


@pytest.mark.parametrize("epochs", [None, 0.3, 0.5, 1.4, 3])
@pytest.mark.parametrize("batch", [4, 15, 32])
@pytest.mark.parametrize("hops", [2, 3, 5])
@pytest.mark.parametrize(
    "sizes", [[28, 33, 35], [1, 30, 127], [0, 5, 60], [2, 2], [64, 65, 33]], ids=lambda sizes: str(sizes)
)
def test_advice_that_is_followed_is_not_given_again(
    sizes: list[int], hops: int, batch: int, epochs: float | None
) -> None:
    """Of clients of many sizes, also the smallest then takes enough steps."""
    plan = Planned(np.array(sizes), 2, epochs=epochs, batch=batch)
    problem = check_hand_over(plan, hops)
    if problem is None:
        return
    advised = problem.sentence.partition("; plan ")[2].split(" or ")
    for flag, value in (words.split() for words in advised):
        followed = replace(plan, **{flag.removeprefix("--"): int(value)})
        assert check_hand_over(followed, hops) is None, f"{flag} {value}"


def test_the_steps_of_a_visit_are_those_of_a_run() -> None:
    """The plan that a diagnosis counts with is the one that clients train by."""
    sizes = np.array([0, 1, 9, 10, 11, 64, 65])
    for epochs, steps, batch in ((None, None, 32), (2.5, None, 10), (0.3, None, 4), (None, 3, 8)):
        counted = Planned(sizes, 2, epochs=epochs, steps=steps, batch=batch).visit_steps()
        local = Local(epochs=epochs or (None if steps else 1.0), steps=steps, batch=batch)
        assert counted.tolist() == [plan(n, n, local, seed=0, t=0, client=0).steps for n in sizes.tolist()]


def test_phases_count_the_clients_of_a_cohort() -> None:
    """Ten of a hundred clients a round make two phases of five; the advice says how many to plan."""
    advised = advice_for(skewed_but_complete(100), cohort=10)["phase_shift"]
    assert (advised.fit, advised.why) == (
        "no",
        "two phases need at least 10 active clients each, and a cohort has 10; plan --cohort 20 of the 100 clients",
    )
    assert advice_for(skewed_but_complete(100), cohort=20)["phase_shift"].fit == "try"


def test_daca_is_not_advised_beyond_the_pairs_it_can_look_at() -> None:
    """A hundred thousand clients have five billion pairs."""
    counts = np.vstack([one_class_each(99_900, 10), even(100, 1)])
    advised = advice_for(counts)["daca"]
    assert (advised.fit, advised.why) == (
        "no",
        "daca looks at every pair of clients, and 100000 of them have too many; take at most 20000",
    )


def test_scaffold_needs_clients_that_come_back() -> None:
    """50 rounds of 10 of 1000 clients are half a visit each."""
    advised = advice_for(one_class_each(1000, 100), cohort=10)["scaffold"]
    assert advised.fit == "no"
    assert "a client takes part 0.5 times in 50 rounds of 10 of 1,000 clients" in advised.why


@pytest.mark.parametrize("part", ["phase_shift(4)", "sem(via=others)", "daca", "fedaug(1.2)", "flea(dense1)"])
@pytest.mark.parametrize("sizes", [[2] * 3, [2] * 30, [40] * 12], ids=["tiny", "few samples", "enough"])
def test_a_diagnosis_and_a_run_ask_the_same_question(part: str, sizes: list[int]) -> None:
    """What the part's check refuses or warns of is what the condition of its name says, word for word."""
    made = next(p for p in Method.parse(part).parts if p.name == part.partition("(")[0])
    held = tiny(sizes=sizes, classes=2)
    values = {f.name: getattr(made, f.name) for f in fields(made)}
    asks = CONDITIONS[made.name][0]
    known = {k: v for k, v in values.items() if k in asks.__code__.co_varnames[: asks.__code__.co_argcount]}
    problem = asks(Planned(held.sizes, 2, cohort=4), **known)
    said = ""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            made.check(held, 4)
        except InputError as refusal:
            said = str(refusal)
    assert (said or "".join(str(w.message) for w in heard)) == (problem.sentence if problem else "")
    assert bool(said) == bool(problem and problem.refused)


# --- what the book has against a part


def advice_with(gains: dict[str, tuple[float, float | None]]) -> dict[str, Advice]:
    """The advice for small clients of one class where a book of one setting, like them, has these gains."""
    counts = one_class_each(50, 20)
    there = {name: {"mean": mean, "half": half, "seeds": 3} for name, (mean, half) in gains.items()}
    book = [Setting("made", "made", "small clients", "made", 1.0, 0.9, 20, 10, there)]
    situation = Situation.of(counts, skew(counts), cohort=40, epochs=5, batch=10)
    return {a.part: a for a in advise(situation, gather(Likeness(1.0, 0.9, 20, 10), book))}


def test_a_part_that_lost_on_such_data_is_not_to_be_tried() -> None:
    """Whatever its paper says; the form of it that gained there is named, if one did."""
    told = advice_with(
        {"flea(dense1)": (-63.0, 3.8), "flea(dense1, decor=0.3)": (6.1, 1.7), "fedaug(0.8)": (-9, 1)}
    )
    assert told["flea"].fit == "perhaps"
    assert told["flea"].why.endswith(
        "; as it comes it lost points in the book: -63.0 ± 3.8 in small clients (0.0 steps away), where "
        "flea(LAYER, decor=0.3) gained +6.1 ± 1.7"
    )
    alone = advice_with({"flea(dense1)": (-63.0, 3.8), "flea(dense1, decor=0.3)": (1.0, 1.7)})
    assert alone["flea"].why.endswith("-63.0 ± 3.8 in small clients (0.0 steps away)")


def test_what_may_be_no_loss_and_other_settings_of_a_part_are_no_evidence_against_it() -> None:
    """-1 ± 2 may be a gain, and two phases are not four."""
    told = advice_with(
        {"flea(dense1)": (-1.0, 2.0), "sem(hops=4)": (-5.0, 1.0), "phase_shift(2)": (-5.0, 1.0)}
    )
    assert {told[part].fit for part in ("flea", "sem", "phase_shift")} == {"try"}
    assert advice_with({"phase_shift(4)": (-5.0, 1.0)})["phase_shift"].fit == "perhaps"


def test_of_one_class_there_is_nothing_to_learn() -> None:
    """Ten classes are known, and everybody holds the first alone."""
    counts = np.zeros((32, 10), int)
    counts[:, 0] = 40
    assert {(a.fit, a.why) for a in advice_for(counts).values()} == {
        ("no", "all samples are of one class: there is nothing to learn")
    }

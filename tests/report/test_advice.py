"""The advice follows the evidence of the papers."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.metrics import skew
from unskew.report import advice as advising
from unskew.report.advice import REMEDIES, Advice, advise
from unskew.report.situation import Situation


def advice_for(counts: np.ndarray) -> dict[str, Advice]:
    return {advice.part: advice for advice in advise(Situation.of(counts, skew(counts)))}


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


def test_complete_but_skewed_clients_call_for_augmentation() -> None:
    """The thesis's case: beyond EMD 1.2 with a few of each class."""
    assert advice_for(skewed_but_complete(20))["fedaug"].fit == "try"


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
    """One client has no peers, no cohort and no skew."""
    assert {a.fit for a in advice_for(even(1, 1000)).values()} == {"no"}


def test_fitting_remedies_come_first() -> None:
    """Try, then perhaps, then no."""
    order = [a.fit for a in advise(Situation.of(one_class_each(50, 20), skew(one_class_each(50, 20))))]
    assert order == sorted(order, key=["try", "perhaps", "no"].index)


def test_every_remedy_says_what_it_needs_discloses_and_has_shown() -> None:
    """No blank entry, and the evidence names a paper."""
    for remedy in REMEDIES:
        assert remedy.needs
        assert remedy.discloses
        assert remedy.evidence.split(",")[0] in {"SEM", "FLea", "thesis", "Seol & Kim", "DACA"}


def test_availability_is_read_from_one_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this version can train with is marked; the rest is named all the same."""
    monkeypatch.setattr(advising, "AVAILABLE", frozenset({"sem"}))
    advised = advice_for(one_class_each(50, 20))
    assert advised["sem"].available
    assert not advised["flea"].available


def test_available_is_what_a_method_can_be_made_of() -> None:
    """It is told by the names of files, so that a diagnosis need not load torch, and agrees with the parts."""
    from unskew.method import PARTS

    remedies = {remedy.part for remedy in advising.REMEDIES}
    assert remedies & advising.AVAILABLE == remedies & PARTS.keys()

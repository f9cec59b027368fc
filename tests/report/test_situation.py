"""What the advice turns on, read off a count matrix."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.metrics import skew
from unskew.report.situation import FALLS_FAR, STARTS_TO_FALL, Situation, beyond_chance, dealt_blindly


def situation(rows: list[list[int]]) -> Situation:
    counts = np.array(rows)
    return Situation.of(counts, skew(counts))


def test_blind_dealing_of_two_and_two_is_worked_by_hand() -> None:
    """Two clients of 2 samples, two classes of 2: with chance 2/3 each gets one of each (EMD 0), with chance
    1/3 each gets a pair (EMD 1 each, one empty class each), so EMD 1/3 and sparsity 1/6 ... of 4 cells 2."""
    emd, sparsity = dealt_blindly(np.array([[2, 0], [0, 2]]))
    assert emd == pytest.approx(1 / 3)
    assert sparsity == pytest.approx(1 / 6)


def test_blind_dealing_agrees_with_shuffling() -> None:
    """The closed form is the mean over shuffles of the same samples over clients of the same sizes."""
    counts = np.array([[9, 0, 1], [3, 3, 0], [0, 8, 20], [1, 0, 0]])
    sizes, labels = counts.sum(1), np.repeat(np.arange(3), counts.sum(0))
    owner = np.repeat(np.arange(4), sizes)
    random = np.random.default_rng(0)
    emds, empty = [], []
    for _ in range(4000):
        dealt = np.bincount(owner * 3 + random.permutation(labels), minlength=12).reshape(4, 3)
        emds.append(skew(dealt).emd)
        empty.append(np.mean(dealt == 0))
    emd, sparsity = dealt_blindly(counts)
    assert emd == pytest.approx(np.mean(emds), abs=4 * np.std(emds) / 4000**0.5)
    assert sparsity == pytest.approx(np.mean(empty), abs=4 * np.std(empty) / 4000**0.5)


def test_one_client_holds_everything_by_certainty() -> None:
    """A single client has EMD 0 and no empty class whatever is dealt."""
    assert dealt_blindly(np.array([[5, 1, 7]])) == (0.0, 0.0)


def test_empty_clients_are_no_obstacle() -> None:
    """A client without samples adds empty cells and no distance."""
    found = situation([[4, 4], [0, 0], [4, 4]])
    assert found.emd == 0
    assert found.chance_sparsity > 1 / 3
    assert found.least_emd == 0


def test_the_ceiling_is_what_single_class_clients_have() -> None:
    """Ten equal classes, each at one client: EMD 2 - 2/10 = 1.8, which is the ceiling."""
    found = situation((np.eye(10, dtype=int) * 100).tolist())
    assert found.emd == pytest.approx(1.8)
    assert found.ceiling == pytest.approx(1.8)
    assert found.single_class == 1
    assert found.reaches(FALLS_FAR)


def test_thresholds_are_scaled_where_two_classes_allow_only_one() -> None:
    """Two classes reach EMD 1 at most; 1.4 of ten classes' 1.8 is 0.78 there."""
    apart = situation([[100, 0], [0, 100]])
    assert apart.ceiling == pytest.approx(1.0)
    assert apart.scaled(FALLS_FAR) == pytest.approx(1.4 / 1.8)
    assert apart.reaches(FALLS_FAR)
    assert not situation([[60, 40], [40, 60]]).reaches(STARTS_TO_FALL)


def test_more_classes_do_not_raise_the_thresholds() -> None:
    """Twenty of a hundred classes is EMD 1.6 as two of ten is (thesis, section 3.2.1)."""
    counts = np.zeros((5, 100), int)
    for k in range(5):
        counts[k, 20 * k : 20 * k + 20] = 10
    found = situation(counts.tolist())
    assert found.emd == pytest.approx(1.6)
    assert found.scaled(FALLS_FAR) == FALLS_FAR


def test_skew_beyond_chance_is_a_share_of_what_there_can_be() -> None:
    """1.2 of 1.8 where chance gives 0.6: half of what is left; about as much as chance is none."""
    assert beyond_chance(1.2, 0.6, 1.8) == pytest.approx(0.5)
    assert beyond_chance(0.65, 0.6, 1.8) == 0
    assert beyond_chance(0.0, 0.0, 0.0) == 0


def test_small_even_clients_are_skewed_by_chance_only() -> None:
    """Ten samples a client, dealt blindly, measure a large EMD that the situation sees through."""
    random = np.random.default_rng(1)
    labels = random.permutation(np.repeat(np.arange(10), 100))
    counts = np.stack([np.bincount(part, minlength=10) for part in np.split(labels, 100)])
    found = Situation.of(counts, skew(counts))
    assert found.emd > 0.6
    assert found.by_chance
    assert not found.skewed

"""Metrics worked by hand, held against scikit-learn's, and where there is little or nothing to judge by."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.metrics.scores import (
    Counts,
    accuracy,
    auc,
    balanced_accuracy,
    class_accuracies,
    macro_f1,
    worst_class,
)
from unskew.readings import METRICS

TRUTH = np.array([0, 0, 0, 0, 1, 1, 2])
GUESS = np.array([0, 0, 0, 1, 1, 2, 2])


def counted(truth, guess, classes: int = 3) -> Counts:
    return Counts.over(np.array(truth, np.int64), np.array(guess, np.int64), classes)


def test_seven_samples_by_hand():
    """Classes of 4, 2 and 1 samples with 3, 1 and 1 right, answered 3, 2 and 2 times.

    Accuracies 3/4, 1/2 and 1; F1 = 2 hits / (truths + guesses): 6/7, 2/4 and 2/3.
    """
    counts = counted(TRUTH, GUESS)
    assert counts.truths.tolist() == [[4, 2, 1]]
    assert counts.guesses.tolist() == [[3, 2, 2]]
    assert counts.hits.tolist() == [[3, 1, 1]]
    assert class_accuracies(counts).tolist() == [[0.75, 0.5, 1.0]]
    assert accuracy(counts) == pytest.approx(5 / 7)
    assert balanced_accuracy(counts) == pytest.approx((3 / 4 + 1 / 2 + 1) / 3)
    assert macro_f1(counts) == pytest.approx((6 / 7 + 2 / 4 + 2 / 3) / 3)
    assert worst_class(counts) == 0.5


def test_always_the_most_frequent_class():
    """Nine of ten are class 0: 90% accuracy, and half of that is luck: balanced 1/2, F1 (18/19 + 0) / 2, worst 0."""
    counts = counted([0] * 9 + [1], [0] * 10, 2)
    assert accuracy(counts) == 0.9
    assert balanced_accuracy(counts) == 0.5
    assert macro_f1(counts) == pytest.approx(9 / 19)
    assert worst_class(counts) == 0.0


def test_a_class_that_the_test_set_lacks():
    """It has no accuracy and enters no mean; answering it is a false alarm, so it has an F1 of 0."""
    never_answered, answered = counted([0, 0, 1], [0, 0, 1]), counted([0, 0, 1], [0, 2, 1])
    assert np.isnan(class_accuracies(answered)[0, 2])
    assert balanced_accuracy(never_answered) == macro_f1(never_answered) == worst_class(never_answered) == 1
    assert balanced_accuracy(answered) == pytest.approx((1 / 2 + 1) / 2)
    assert macro_f1(answered) == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert worst_class(answered) == 0.5


@pytest.mark.parametrize(("guess", "value"), [(1, 1.0), (0, 0.0)])
def test_one_sample(guess, value):
    """Right or wrong, in every metric."""
    counts = counted([1], [guess], 2)
    assert [float(f(counts)[0]) for f in (accuracy, balanced_accuracy, macro_f1, worst_class)] == [value] * 4


def test_one_class_alone():
    """What has one class is always right."""
    counts = counted([0, 0], [0, 0], 1)
    assert [float(f(counts)[0]) for f in (accuracy, balanced_accuracy, macro_f1, worst_class)] == [1.0] * 4


def test_no_sample_is_no_number():
    """And no error or warning either."""
    counts = counted([], [])
    for metric in (accuracy, balanced_accuracy, macro_f1, worst_class):
        assert np.isnan(metric(counts)).all()


def test_groups_are_judged_at_once():
    """Two clients, the second without a sample, as each alone."""
    owner = np.array([0, 0, 0, 2, 2, 2, 2])
    together = Counts.over(TRUTH, GUESS, 3, owner, 3)
    for metric in (accuracy, balanced_accuracy, macro_f1, worst_class):
        apart = [metric(counted(TRUTH[owner == k], GUESS[owner == k]))[0] for k in range(3)]
        assert np.isnan(apart[1])
        assert metric(together).tolist() == pytest.approx(apart, nan_ok=True)


def test_auc_by_hand():
    """Positives 0.9 and 0.4, negatives 0.4 and 0.1: of four pairs three are won and one is even: 3.5 / 4."""
    positive, score = np.array([True, True, False, False]), np.array([0.9, 0.4, 0.4, 0.1])
    assert auc(positive, score) == 3.5 / 4
    assert auc(~positive, score) == 0.5 / 4
    assert auc(positive, np.zeros(4)) == 0.5


def test_auc_needs_both_classes_and_numbers():
    """Else it is no number."""
    assert np.isnan(auc(np.array([True, True]), np.array([0.1, 0.2])))
    assert np.isnan(auc(np.array([], bool), np.array([])))
    assert np.isnan(auc(np.array([True, False]), np.array([0.1, np.nan])))


@settings(max_examples=60)
@given(st.data())
def test_the_same_as_scikit_learn(data):
    """On any labels and answers, equal scores included."""
    import sklearn.metrics as sk

    n = data.draw(st.integers(2, 40))
    label = st.lists(st.integers(0, 3), min_size=n, max_size=n)
    truth, guess = np.array(data.draw(label)), np.array(data.draw(label))
    counts = counted(truth, guess, 4)
    assert accuracy(counts)[0] == pytest.approx(sk.accuracy_score(truth, guess))
    there = np.unique(truth)
    recalls = sk.recall_score(truth, guess, labels=there, average=None, zero_division=0)
    assert balanced_accuracy(counts)[0] == pytest.approx(recalls.mean())
    assert worst_class(counts)[0] == pytest.approx(recalls.min())
    assert macro_f1(counts)[0] == pytest.approx(sk.f1_score(truth, guess, average="macro"))
    if np.isin(guess, there).all():  # it warns of others
        assert balanced_accuracy(counts)[0] == pytest.approx(sk.balanced_accuracy_score(truth, guess))
    positive = truth > 1
    if 0 < positive.sum() < n:
        assert auc(positive, guess) == pytest.approx(sk.roc_auc_score(positive, guess))


def test_every_metric_says_what_it_is_and_which_way_is_better():
    """A line of help each; of the loss less is better, and it stays under the name that logs have."""
    assert list(METRICS) == ["accuracy", "balanced_accuracy", "macro_f1", "worst_class", "log_loss", "auc"]
    assert all(reading.help.endswith(".") for reading in METRICS.values())
    assert [name for name, reading in METRICS.items() if not reading.larger_is_better] == ["log_loss"]
    assert METRICS["log_loss"].key == "global_test_loss"
    assert METRICS["macro_f1"].key == "global_test_macro_f1"
    assert METRICS["log_loss"].reaches(0.3, 0.4)
    assert not METRICS["accuracy"].reaches(0.3, 0.4)

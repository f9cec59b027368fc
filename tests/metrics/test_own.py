"""Metrics given in Python: how they are called, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import InputError
from unskew.metrics.own import Metric, own_metrics

ANSWERS = {
    "truth": np.array([0, 1, 1]),
    "predicted": np.array([0, 0, 1]),
    "probabilities": np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], np.float32),
}


def missed(y_true, y_pred, probabilities):
    """Each that is missed costs 10."""
    return 10 * np.sum((y_true == 1) & (y_pred == 0))


def test_three_arguments_or_two():
    """Truth, answers and probabilities; scikit-learn's scores of two arguments fit as they are."""
    from sklearn.metrics import matthews_corrcoef

    assert Metric(missed).work_out("missed", ANSWERS) == 10.0
    brier = Metric(lambda y, guess, p: np.mean((p[:, 1] - y) ** 2))
    assert brier.work_out("brier", ANSWERS) == pytest.approx((0.01 + 0.36 + 0.04) / 3)
    assert Metric(matthews_corrcoef).work_out("mcc", ANSWERS) == pytest.approx(0.5)
    assert Metric(lambda *given: len(given)).work_out("n", ANSWERS) == 3


def test_its_help_is_its_docstring():
    """Unless it says another."""
    assert Metric(missed).reading("missed").help == "Each that is missed costs 10."
    cost = Metric(missed, larger_is_better=False, help="euro").reading("cost_a_day")
    assert (cost.help, cost.larger_is_better, cost.title, cost.key) == (
        "euro",
        False,
        "cost a day",
        "global_test_cost_a_day",
    )


@pytest.mark.parametrize(
    ("gives", "said"),
    [
        ("high", "gave 'high', and must give one number"),
        (None, "gave None, and must give one number"),
        (np.ones(3), r"gave an array of shape \(3,\), and must give one number"),
        (1j, "gave 1j"),
    ],
)
def test_what_is_no_number_is_refused(gives, said):
    """In one sentence that names the metric."""
    with pytest.raises(InputError, match=f"the metric 'odd' {said}"):
        Metric(lambda y, guess: gives).work_out("odd", ANSWERS)


def test_nan_is_a_blank_and_an_error_a_sentence():
    """A metric may have no value in a round; one that fails says with what."""
    assert np.isnan(Metric(lambda y, guess: np.nan).work_out("odd", ANSWERS))
    with pytest.raises(InputError, match="the metric 'odd' failed with ZeroDivisionError: division by zero"):
        Metric(lambda y, guess: 1 / 0).work_out("odd", ANSWERS)


def test_names_in_their_order_and_functions():
    """A mapping names own ones with a function, unskew's own with None; a list has names alone."""
    names, own = own_metrics({"missed": missed, "macro_f1": None})
    assert names == ("missed", "macro_f1")
    assert own == {"missed": Metric(missed)}
    assert own_metrics(["macro_f1", "accuracy"]) == (("macro_f1", "accuracy"), {})
    assert own_metrics("macro_f1") == (("macro_f1",), {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"accuracy": missed}, "'accuracy' is a metric of unskew's own; give yours another name"),
        ({"loss": missed}, "'loss' is in every log already"),
        (
            {"Cost!": missed},
            "a metric's name is a word of small letters, such as 'cost_per_patient', not 'Cost!'",
        ),
        ({"cost": 3}, "the metric 'cost' must be a function of y_true, y_pred and probabilities, not 3"),
        (5, "metrics are names such as"),
        ([missed], 'needs a name: write metrics={"missed": missed}'),
    ],
)
def test_names_that_cannot_be(given, said):
    """Each in one sentence that says what to write."""
    with pytest.raises(InputError, match=said):
        own_metrics(given)

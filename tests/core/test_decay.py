"""How the learning rate falls over rounds, by hand."""

from __future__ import annotations

import pytest

from unskew.core.decay import decay
from unskew.errors import InputError


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("constant", [1, 1, 1, 1, 1]),
        ("exponential(0.5)", [1, 0.5, 0.25, 0.125, 0.0625]),
        ("exponential(0.5, floor=0.2)", [1, 0.5, 0.25, 0.2, 0.2]),
        ("linear", [1, 0.75, 0.5, 0.25, 0]),
        ("linear(end=0.2)", [1, 0.8, 0.6, 0.4, 0.2]),
        ("linear(0.1, over=3)", [1, 0.55, 0.1, 0.1, 0.1]),
        ("step(2, 0.1)", [1, 1, 0.1, 0.1, 0.01]),
        ("milestones([2, 3])", [1, 1, 0.1, 0.01, 0.01]),
    ],
)
def test_the_factors_of_five_rounds(expression: str, expected: list[float]) -> None:
    falls = decay(expression)
    assert [falls.factor(t, 5) for t in range(5)] == pytest.approx(expected)


def test_a_run_of_one_round_begins_at_the_full_rate() -> None:
    """The first round is also the last: it is not the end of the line."""
    assert decay("linear(end=0.1)").factor(0, 1) == 1.0


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("exponential(0)", "gamma of exponential must be above 0 and at most 1, not 0.0"),
        ("exponential(1.5)", "gamma of exponential must be above 0 and at most 1, not 1.5"),
        ("linear(-0.1)", "end of linear must be at least 0 and at most 1, not -0.1"),
        ("linear(0.1, over=1)", "over of linear must be at least 2 rounds, not 1"),
        ("step(0)", "every of step must be at least 1, not 0"),
        (
            "milestones([])",
            "at of milestones is a list of different rounds, 1 or later, such as [50, 75], not []",
        ),
        (
            "milestones([5, 5])",
            "at of milestones is a list of different rounds, 1 or later, such as [50, 75], not [5, 5]",
        ),
        (
            "milestones([0, 5])",
            "at of milestones is a list of different rounds, 1 or later, such as [50, 75], not [0, 5]",
        ),
        ("constnat", "there is no learning-rate decay 'constnat'; did you mean 'constant'?"),
    ],
)
def test_bad_decays_are_refused_in_a_sentence(expression: str, sentence: str) -> None:
    with pytest.raises(InputError) as problem:
        decay(expression)
    assert str(problem.value) == sentence

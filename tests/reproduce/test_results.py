"""Gains, intervals and verdicts, worked by hand."""

from __future__ import annotations

import pytest

from unskew.errors import InputError
from unskew.reproduce.exhibit import Cell, Group
from unskew.reproduce.results import Gain, gain, read_lines, verdict

GROUP = Group("e", "g", "said", "recipe", tail=2, own=("m",))


def line(method: str, seed: int, *accuracy: float, **more) -> dict:
    return {"exhibit": "e", "group": "g", "method": method, "seed": seed, "accuracy": list(accuracy), **more}


def cell(printed: float | None) -> Cell:
    return Cell("e", "g", "m", "fedavg", printed)


LINES = [line("fedavg", 0, 0.5, 0.4, 0.6), line("m", 0, 0.5, 0.7, 0.5)]
LINES += [line("fedavg", 1, 0.5, 0.4, 0.6), line("m", 1, 0.5, 0.9, 0.5)]


def test_a_gain_by_hand() -> None:
    """Best rounds: 70 - 60 and 90 - 60, so 20 with sd 14.14; the interval of two seeds is 12.706 * 14.14 / 1.414."""
    found = gain(cell(1), GROUP, LINES, "best")
    assert found == Gain(20.0, pytest.approx(127.06, abs=0.01), 2)
    ended = gain(cell(1), GROUP, LINES, "end")  # means of the last two: 60 - 50 and 70 - 50
    assert ended is not None
    assert ended.mean == pytest.approx(15)


def test_what_was_not_run_or_not_finished_has_no_gain() -> None:
    """No base, no shared seed, or a run that was stopped."""
    assert gain(cell(1), GROUP, LINES[1::2], "best") is None
    assert gain(cell(1), GROUP, [LINES[0], LINES[3]], "best") is None
    stopped = [LINES[0], line("m", 0, 0.5, stopped_after=1)]
    assert gain(cell(1), GROUP, stopped, "best") is None
    assert verdict(cell(1), None) == "not run"


def test_means_over_seeds_are_compared_as_they_were_told() -> None:
    """Paired where the gain was told; else sd = root of 3 squared and 4 squared, over 4 seeds: 3.182 * 5 / 2."""
    base = {"group": "g", "method": "fedavg", "seed": None, "seeds": 4, "end": {"mean": 70.0, "sd": 3.0}}
    ours = {"group": "g", "method": "m", "seed": None, "seeds": 4, "end": {"mean": 72.0, "sd": 4.0}}
    assert gain(cell(1), GROUP, [base, ours], "end") == Gain(2.0, pytest.approx(7.956, abs=0.001), 4)
    told = ours | {"gain": {"over": "fedavg", "end": {"mean": 2.0, "sd": 0.0}}}
    assert gain(cell(1), GROUP, [base, told], "end") == Gain(2.0, 0.0, 4)


def test_a_run_without_a_mean_of_its_end_is_compared_by_last_rounds() -> None:
    """CCVR is judged once: 75 - 65, not 75 less FedAvg's mean."""
    base = {
        "group": "g",
        "method": "fedavg",
        "seed": 0,
        "end": {"accuracy": 0.5},
        "final": {"accuracy": 0.65},
    }
    ours = {"group": "g", "method": "m", "seed": 0, "final": {"accuracy": 0.75}}
    found = gain(cell(1), GROUP, [base, ours], "end")
    assert found is not None
    assert found.mean == pytest.approx(10)


@pytest.mark.parametrize(
    ("printed", "found", "said"),
    [
        (2.0, Gain(1.0, 1.5, 3), "holds"),
        (2.0, Gain(1.0, 0.5, 3), "in kind"),
        (2.0, Gain(1.9, None, 1), "in kind"),  # one seed has no interval
        (2.0, Gain(-0.1, 9.0, 3), "not"),  # the interval reaches it, the sign does not
        (-1.0, Gain(-3.0, 2.5, 3), "holds"),
        (0.0, Gain(-0.9, None, 1), "in kind"),  # the paper sees no difference
        (0.0, Gain(-1.5, 2.0, 3), "not"),
        (0.0, Gain(-0.5, 0.6, 3), "holds"),
        (None, Gain(1.0, 0.5, 3), "ours"),
    ],
)
def test_verdicts(printed: float | None, found: Gain, said: str) -> None:
    """holds: the same sign, and the interval reaches it; in kind: the same sign; else not."""
    assert verdict(cell(printed), found) == said


def test_a_damaged_line_is_named(tmp_path) -> None:
    """By file and line."""
    (tmp_path / "one.jsonl").write_text('{"exhibit": "e"}\nnot json\n')
    with pytest.raises(InputError, match=r"one\.jsonl, line 2 is no result"):
        read_lines(tmp_path)

"""Gains, intervals and verdicts, worked by hand."""

from __future__ import annotations

import json

import pytest

from unskew.errors import InputError
from unskew.reproduce.exhibit import Cell, Group, exhibit_of
from unskew.reproduce.line_settings import KEPT
from unskew.reproduce.results import Gain, Judged, gain, judge, read_lines, state, verdict
from unskew.runs.spec import Spec

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


def run_of(method: str, accuracy: float, seed: int = 0, **setting) -> dict:
    """A line of digits-steps, of its group digits: 40 rounds where nothing else is said."""
    whole = {"clients": 40, "cohort": 4, "epochs": 2.0, "batch": 8, "lr": 0.05, "rounds": 40}
    about = {"exhibit": "digits-steps", "group": "digits", "device": "cpu", "setting": whole | setting}
    return about | {"method": method, "seed": seed, "accuracy": [accuracy]}


def one_of(judged: list[Judged], method: str) -> Judged:
    return next(one for one in judged if one.cell.method == method)


def test_only_runs_of_equal_settings_are_compared() -> None:
    """40 rounds less 2 rounds is no gain; two of 2 rounds are one that nobody judges; whole ones come first."""
    exhibit = exhibit_of("digits-steps")
    short = [run_of("fedavg", 0.3, rounds=2), run_of("fedadam", 0.4, rounds=2)]
    mixed = one_of(judge(exhibit, [short[0], run_of("fedadam", 0.9)]), "fedadam")
    assert (mixed.verdict, mixed.end) == ("not run", None)
    alike = one_of(judge(exhibit, short), "fedadam")
    assert (alike.verdict, str(alike.end)) == ("2 of 40 rounds", "+10.0")
    assert state(judge(exhibit, short), short) == "1 with other settings, 16 not run"
    whole = [run_of("fedavg", 0.8, seed=1), run_of("fedadam", 0.9, seed=1)]
    assert gain(alike.cell, alike.group, [*short, *whole], "end") == Gain(10.0, None, 1)
    assert one_of(judge(exhibit, [*short, *whole]), "fedadam").verdict == "ours"
    longer = [run_of("fedavg", 0.3, rounds=80), run_of("fedadam", 0.4, rounds=80)]
    assert one_of(judge(exhibit, longer), "fedadam").verdict == "rounds = 80, not 40"


def test_methods_that_an_exhibit_runs_otherwise_are_compared_all_the_same() -> None:
    """Two phases play 12 rounds where FedAvg plays 9, in the exhibit; a precision of its own is only told."""
    group = exhibit_of("thesis-chapter6").groups[0]
    about = {"exhibit": "thesis-chapter6", "group": "fashion", "seed": 0}
    setting = {k: v for k, v in Spec.of(group.settings_of("fedavg")).changed().items() if k in KEPT}
    lines = [
        about | {"method": "fedavg", "accuracy": [0.5], "device": "cpu", "setting": setting},
        about | {"method": "phase_shift(2, mode=epoch)", "accuracy": [0.6], "device": "one H200, shared"}
        | {"setting": setting | {"rounds": 12, "precision": "tf32"}},
    ]  # fmt: skip
    found = one_of(judge(exhibit_of("thesis-chapter6"), lines), "phase_shift(2, mode=epoch)")
    assert (found.verdict, str(found.end)) == ("ours", "+10.0")
    assert found.machines == ("cpu", "one H200 in tf32")


def test_a_zero_has_no_sign() -> None:
    """What is rounded to 0.0 is neither above nor below."""
    assert [str(Gain(mean, None, 1)) for mean in (-0.04, 0.04, -0.06)] == ["0.0", "0.0", "-0.1"]


@pytest.mark.parametrize(
    "damage",
    [
        b"not json",
        b"[1]",
        b"\xff\xfe",
        b"{}",
        b'{"exhibit": "e", "group": "g", "method": 3}',
        b'{"exhibit": "e", "group": "g", "method": "m", "row": 1}',
        b'{"exhibit": "e", "group": "g", "method": "m", "seed": "0"}',
        b'{"exhibit": "e", "group": "g", "method": "m", "seed": 0, "accuracy": "0.5"}',
        b'{"exhibit": "e", "group": "g", "method": "m", "seed": 0, "best": {"accuracy": "high"}}',
        b'{"exhibit": "e", "group": "g", "method": "m", "seed": 0, "setting": {"rounds": "two"}}',
        b'{"exhibit": "e", "group": "g", "method": "m", "seed": 0, "setting": []}',
    ],
)
def test_a_damaged_line_is_named(tmp_path, damage: bytes) -> None:
    """By file and line, in one sentence, whatever is wrong with it."""
    sound = json.dumps(run_of("fedavg", 0.5)).encode()
    (tmp_path / "one.jsonl").write_bytes(sound + b"\n" + damage + b"\n")
    with pytest.raises(InputError, match=r"one\.jsonl, line 2 is no result \(.+\); mend that line"):
        read_lines(tmp_path)

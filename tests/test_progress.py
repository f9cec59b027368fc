"""Work that takes long says how far it is; work that does not, and runs that are to be quiet, say nothing."""

from __future__ import annotations

from typing import Any

import pytest

from unskew.progress import Bar, Drawn, Work, duration, voice, working
from unskew.runs.measure import gamma
from unskew.runs.running import run
from unskew.runs.setup import set_up
from unskew.runs.spec import Spec

TINY: dict[str, Any] = {"clients": 6, "cohort": 2, "rounds": 2, "model": "linear", "lr": 0.1, "fraction": 0.1}


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything takes long."""
    monkeypatch.setattr("unskew.progress.LINE", 0.0)


def test_what_is_over_in_a_moment_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    with working("nothing much", 3) as advance:
        for _ in range(3):
            advance(1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("slow")
def test_lines_say_how_far_and_work_within_work_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    """The last amount needs no line: then it is done."""
    with working("outer", 2) as outer, working("inner", 2) as inner:
        inner(1)
        outer(1)
        outer(1)
    assert capsys.readouterr().err == "outer: 1 of 2, 0 s left\n"
    with working("without end") as advance:
        advance(5)
    assert capsys.readouterr().err == "without end: 5 so far, 0 s\n"
    with voice(False), voice(True), working("unheard", 2) as advance:
        advance(1)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"engine": "loop"}, "clients: 1 of 2"),
        ({"engine": "fast", "workers": 1, "block": 1}, "groups of clients or samples: 1 of 2"),
        ({"engine": "fast", "workers": 2, "block": 1}, "groups of clients or samples: 1 of 2"),
        ({"method": "ccvr(virtual=5,epochs=1)", "model": "mlp(hidden=[4])"}, "clients that ccvr asks: 1 of"),
        ({"method": "local_only", "engine": "loop"}, "clients' models judged: 1 of"),
        ({"partition": "emd", "emd": 1.2}, "partitions tried for EMD 1.2: 1 so far"),
    ],
)
def test_a_runs_long_work_is_told_unless_it_is_to_be_quiet(
    settings: dict[str, Any], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(**TINY | settings)
    assert told in capsys.readouterr().err
    run(**TINY | settings, progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("slow")
def test_gamma_says_how_far_it_is_and_how_many_clients_it_drew(capsys: pytest.CaptureFixture[str]) -> None:
    """Of more than it may take a sample is taken, and the result has both numbers."""
    setup = set_up(Spec(**TINY | {"clients": 12, "engine": "loop"}))
    found = gamma(setup.run, setup.state.params, steps=2, most=3)
    assert (found["clients"], found["of_clients"]) == (3, 12)
    assert "gamma: minimal losses of clients: 1 of 4" in capsys.readouterr().err


def test_a_bar_of_long_work_stands_below_the_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a task of the run's own bar while it lasts."""
    monkeypatch.setattr("unskew.progress.MOMENT", 0.0)
    bar = Bar("fedavg · seed 0", 2, 0)
    with voice(bar):
        with working("clients", 3) as advance:
            advance(2)
            assert [(task.description, task.completed) for task in bar.bar.tasks] == [
                ("fedavg · seed 0", 0),
                ("clients", 2),
            ]
        assert len(bar.bar.tasks) == 1
    alone = Drawn(Work("alone", 2), None)
    alone.advance(1)
    assert alone.bar is not None
    alone.end()


def test_times_are_said_in_words() -> None:
    assert [duration(s) for s in (0.4, 99, 150, 5999, 6000, 90000)] == [
        "0 s",
        "99 s",
        "2 min",
        "100 min",
        "1.7 h",
        "25.0 h",
    ]


@pytest.mark.usefixtures("slow")
def test_work_known_to_be_long_is_told_as_it_begins_and_in_its_unit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A download names itself at once, then says megabytes."""
    with working("downloading x", 3_000_000, in_bytes=True, at_once=True) as advance:
        assert capsys.readouterr().err == "downloading x\n"
        advance(1_500_000)
    assert capsys.readouterr().err == "downloading x: 1.5 MB of 3.0 MB, 0 s left\n"
    with voice(False), working("unheard", 2, at_once=True):
        pass
    assert capsys.readouterr().err == ""

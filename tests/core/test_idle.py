"""A leg without a step is said, with what to write instead."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import ClassVar

import pytest

from unskew import run
from unskew.core.method import Method
from unskew.core.slots import Play, Schedule
from unskew.core.types import Leg, Tree
from unskew.testing.toy_federation import play, tiny

FEW = {"rounds": 2, "progress": False, "model": "linear", "cohort": 8, "lr": 0.1}


def told(**settings) -> list[str]:
    """What a run on eight clients of 2 to 9 samples warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(data=tiny(), **(FEW | settings))
    return [str(w.message) for w in seen if "had no step" in str(w.message)]


@dataclass(frozen=True)
class Thirds(Schedule):
    """A schedule of one's own: the same client in three legs."""

    name: ClassVar[str] = "thirds"

    def round(self, play: Play, params: Tree, memory: Tree) -> tuple[Tree, Tree]:
        update = play.train(Leg(play.select().clients, params, epochs=1 / 3, closing=False, upload=False))
        for done in (1 / 3, 2 / 3):
            update = play.train(
                Leg(update.clients, update.params, stacked=True, anchor=params, epochs=1 / 3, done=done,
                    carry=update, closing=done > 0.5, upload=done > 0.5, source="relay")
            )  # fmt: skip
        return play.combine(params, update), memory


def test_sem_with_one_batch_a_visit_says_so_once() -> None:
    """Eight clients, one epoch of one batch: in pairs, half of the 16 legs train nothing, and two epochs mend it."""
    (said,) = told(method="sem")
    assert said.startswith("8 of 16 legs of round 1 had no step: sem divides a visit")
    assert said.endswith("write epochs = 2 or batch = 1")
    assert told(method="sem", steps=1)[0].endswith("write steps = 2")


@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("sem", {}),
        ("sem", {"steps": 1}),
        ("sem(hops=3)", {}),
        ("sem(hops=4)", {"batch": 4}),
        ("sem", {"epochs": 0.5}),
    ],
)
def test_what_to_write_instead_gives_every_leg_a_step(method: str, settings: dict) -> None:
    """Each of the ways that the warning names ends it."""
    (said,) = told(method=method, **settings)
    for name, value in re.findall(r"(epochs|batch|steps) = (\d+)", said.partition("write ")[2]):
        assert not told(method=method, **(settings | {name: int(value)}))


@pytest.mark.parametrize(
    "method", ["fedavg", "phase_shift(2, mode=epoch)", "sem(hops=1)", "centralized", "seol_kim"]
)
def test_who_takes_steps_is_not_warned(method: str) -> None:
    assert not told(method=method)


def test_the_log_counts_them_for_any_schedule() -> None:
    """A schedule of one's own in three legs: of one batch, two have no step; a round that has all says nothing."""
    lines = play(Method.of(Thirds()), cohort=8, epochs=1, batch=32).lines
    assert lines[0]["without_step"] == {"legs": 16, "of": 24, "share": pytest.approx(1 / 3), "samples": 2}
    assert "without_step" not in play(Method.of(Thirds()), cohort=8, epochs=3, batch=32).lines[0]

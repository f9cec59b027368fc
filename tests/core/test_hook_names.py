"""Parts of one's own with hooks that moved or were renamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from unskew import InputError, Method, check_part
from unskew.core.hook_names import EXCHANGES, RENAMED
from unskew.core.slots import Aggregate, Exchange, Needs, Objective, Part, Schedule

SLOTS: dict[str, type[Part]] = {"objective": Objective, "schedule": Schedule, "aggregate": Aggregate}


def part_with(base: type[Part], **defined: Any) -> Part:
    """A part of one's own that defines these."""
    return dataclass(frozen=True)(type("Own", (base,), {"name": "own", "__doc__": "Mine.", **defined}))()


@pytest.mark.parametrize(("slot", "hook"), [(slot, hook) for slot in RENAMED for hook in RENAMED[slot]])
def test_an_old_hook_is_refused_in_a_sentence(slot: str, hook: str) -> None:
    with pytest.raises(
        InputError, match=rf"^Own has hooks that nothing would call: for {hook} (write|name)"
    ) as told:
        Method.of(part_with(SLOTS[slot], **{hook: True}))
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("verb", EXCHANGES)
def test_a_plain_objective_has_no_verb_of_an_exchange(verb: str) -> None:
    """Nothing would call it; the sentence says what to derive from, and there it works."""
    with pytest.raises(InputError, match=f"for {verb} derive it from Exchange"):
        Method.of(part_with(Objective, **{verb: getattr(Exchange, verb)}))
    assert Method.of(part_with(Exchange, **{verb: getattr(Exchange, verb)})).exchange


def test_all_that_is_to_change_is_said_at_once() -> None:
    """A part as the page on parts of one's own had it: two verbs of an exchange, and a need."""
    old = {"needs_global": False, "init_client": Exchange.init_client, "report": Exchange.report}
    with pytest.raises(InputError) as told:
        Method.of(part_with(Objective, **old))
    assert str(told.value) == (
        "Own has hooks that nothing would call: for needs_global write `needs: ClassVar[Needs] = "
        "Needs(global_model=False)` where it is not needed; for init_client and report derive it from Exchange, an "
        "Objective that also remembers and exchanges (all in unskew.parts)"
    )


def test_the_checks_say_the_same() -> None:
    with pytest.raises(InputError, match="derive it from Exchange"):
        check_part(part_with(Objective, report=Exchange.report), only=["finite"])


def test_every_need_has_no_second_name() -> None:
    """Hooks that are refused exist nowhere any more, and what is to be written instead does."""
    for slot, hooks in RENAMED.items():
        assert not [hook for hook in hooks if hasattr(SLOTS[slot], hook)]
    text = " ".join(instead for hooks in RENAMED.values() for instead in hooks.values())
    younger = {"plain_mean"}  # than the record: it never was a hook of its own
    for field in Needs.__dataclass_fields__.keys() - younger:
        assert f"Needs({field}=" in text
    assert all(hasattr(Objective, hook) for hook in ("proximal_mu", "budget_factor"))


@dataclass(frozen=True)
class Stretched(Objective):
    """Has a hyper-parameter that is called as a hook was."""

    name: ClassVar[str] = "stretched"
    stretch: float = 2.0


def test_a_hyper_parameter_may_have_any_name() -> None:
    assert Method.of(Stretched(stretch=3.0)).objective == (Stretched(3.0),)

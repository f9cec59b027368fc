"""Runs that ended before their last round: what a report says of them, and with whom they may be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unskew.readings import METRICS
from unskew.report.results.gather import Record
from unskew.report.results.groups import Group, Problem
from unskew.runs.spec import STOPPING
from unskew.runs.stop_rule import read_stop
from unskew.runs.watchers import Stopped


def ends_of(group: Group) -> tuple[Any, ...]:
    """What says when its runs end: the same of two groups where their rounds differ by what happened alone.

    A watcher of somebody's own is known by its words only.
    """
    own = sorted({one.reason for _, one in stops_of(group) if one.by not in STOPPING})
    return (*(group.settings[name] for name in ("rounds", *STOPPING)), *own)


def stops_of(group: Group) -> list[tuple[Record, Stopped]]:
    """The counted runs that ended early, and why."""
    return [(record, record.stopped) for record in group.counted if record.stopped is not None]


def rounds_of(group: Group) -> int:
    """How many rounds its runs were to play, or did where they ended early; of several the most."""
    return max((record.ends_after for record in group.counted), default=0)


def ends_earlier(group: Group, other: Group) -> bool:
    """Whether a group has had fewer rounds than another, by its plan and not by what a rule of both made of it."""
    return rounds_of(group) < rounds_of(other) and ends_of(group) != ends_of(other)


def stopped_note(problem: Problem) -> str:
    """What must be said of runs that ended early: after which rounds, why, and what that was chosen on."""
    told, on_test = [], False
    for group in problem.judged:
        found = stops_of(group)
        if not found:
            continue
        rounds = sorted({one.rounds for _, one in found})
        first = found[0][1]
        when = f"round {rounds[0]}" if len(rounds) == 1 else f"rounds {rounds[0]} to {rounds[-1]}"
        some = f", {len(found)} of {len(group.counted)} seeds" if len(found) < len(group.counted) else ""
        told.append(f"{group.label} after {when} of {first.of}{some} ({_why(group, [s for _, s in found])})")
        on_test |= any(_looks_at_the_test_set(record, one) for record, one in found)
    if not told:
        return ""
    said = f"Stopped early: {'; '.join(told)}. Their final numbers are of those rounds."
    chosen = " The end was chosen on the test set itself; validation = 0.1 would choose it without."
    return said + (chosen if on_test else "")


def _why(group: Group, found: Sequence[Stopped]) -> str:
    """One reason for all seeds, else the settings that they come of."""
    if len({one.reason for one in found}) == 1:
        return found[0].reason
    by = sorted({one.by for one in found})
    return ", ".join(f"{name} = {group.settings[name]}" if name in STOPPING else name for name in by)


def _looks_at_the_test_set(record: Record, stopped: Stopped) -> bool:
    if record.spec.validation is not None:
        return False
    if stopped.by == "patience":
        return True
    names = read_stop(record.spec.stop).names if stopped.by == "stop" and record.spec.stop else ()
    return any(name in METRICS or name == "loss" or name.startswith("global_test_") for name in names)

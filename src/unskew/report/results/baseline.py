"""What a group of runs is compared with, and why something is no fair baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from unskew.errors import unknown
from unskew.report.results.groups import Group, Problem
from unskew.report.results.spelling import canonical
from unskew.report.results.stops import ends_earlier, rounds_of, stops_of


def baseline_method(found: Sequence[Problem], asked: str | None) -> str | None:
    """The baseline's method, as it is called in the runs; None: each problem's own choice."""
    if asked is None:
        return None
    wanted = canonical(asked)
    every = [group for problem in found for group in problem.judged]
    for group in every:
        if wanted == canonical(group.method) or asked in (group.label, group.called):
            return group.method
    raise unknown(
        "baseline among these runs called", asked, {name for g in every for name in (g.method, g.called)}
    )


def baseline_of(problem: Problem, group: Group, method: str | None) -> Group | None:
    """What a group is compared with: the baseline method with the group's other settings, else its main one.

    Where there is one method only, what was tried first stands for all.
    """
    main = main_baseline(problem, method)
    if main is None or len({canonical(g.method) for g in problem.judged}) == 1:
        return main
    same = [g for g in problem.judged if canonical(g.method) == canonical(main.method)]
    if group in same:
        return group
    return next((g for g in same if g.rest() == group.rest()), main)


def main_baseline(problem: Problem, method: str | None) -> Group | None:
    """The problem's first sound group of the named method, else of fedavg, else of any that is no upper bound.

    A named method stays the baseline whatever its fault; one that was not named does only where all are faulty.
    """
    candidates = _candidates(problem.judged, method)
    return next((g for g in candidates if not fault(g, problem)), next(iter(candidates), None))


def fault(group: Group, problem: Problem) -> str:
    """Why a group is no fair baseline: not done, diverged, damaged, or of fewer rounds than others; else nothing."""
    if not group.complete:
        states = Counter(record.status for record in group.runs)
        told = ", ".join(f"{count} {state}" for state, count in states.items())
        of = len(group.runs)
        return f"its {'run is' if of == 1 else f'{of} runs are'} not done ({told})"
    if wrong := [record for record in group.counted if record.diverged]:
        return "it diverged" + (
            f" in {len(wrong)} of {len(group.counted)} seeds" if group.counted[1:] else ""
        )
    if hurt := [record for record in group.counted if record.damage]:
        return f"in {hurt[0].name} {hurt[0].damage}"
    several = len({canonical(g.method) for g in problem.judged}) > 1
    longer = [g for g in problem.judged if g.complete and not g.bound and ends_earlier(group, g)]
    if several and not group.bound and longer:
        return f"it played {_played(group)}, others {max(map(rounds_of, longer))}"
    return ""


def is_unfair(group: Group, base: Group) -> str:
    """Why this baseline says nothing about this group; '' where it does."""
    if any(record.diverged for record in base.counted):
        return "its baseline diverged"
    if any(record.damage for record in base.counted):
        return "the log of its baseline is damaged"
    if not group.bound and ends_earlier(base, group):
        return f"its baseline played {_played(base)}, it {rounds_of(group)}"
    if not group.bound and stops_of(group) and ends_earlier(group, base):
        return f"it was stopped after {_played(group)}, its baseline played {rounds_of(base)}"
    return ""


def baseline_note(problem: Problem, method: str | None) -> str:
    """What must be said of the baseline: that it is faulty, or what was passed over and why; mostly nothing."""
    if len([group for group in problem.groups if not group.bound]) < 2:
        return ""
    main = main_baseline(problem, method)
    if main is None:
        return ""
    wrong = fault(main, problem)
    if wrong:
        weight = (
            "differences to it say little" if method else "and nothing else is sound, so nothing is compared"
        )
        return f"The baseline {main.label} is faulty: {wrong}; {weight}."
    if method is not None:
        return ""
    natural = _candidates(problem.groups, None)[0]
    if canonical(natural.method) == canonical(main.method):
        return ""
    why = fault(natural, problem)
    return (
        f"{natural.label} is not the baseline, since {why}: others are compared with {main.label}. "
        f"--baseline {natural.method!r} takes it all the same."
        if natural.counted
        else f"{natural.label} is not the baseline, since {why}: others are compared with {main.label}."
    )


def _candidates(groups: Sequence[Group], method: str | None) -> list[Group]:
    if method is not None:
        return [g for g in groups if canonical(g.method) == canonical(method)]
    free = [g for g in groups if not g.bound] or list(groups)
    return sorted(free, key=lambda g: canonical(g.method) != "fedavg")  # which keeps the order within each


def _played(group: Group) -> str:
    rounds = rounds_of(group)
    return f"{rounds} round{'' if rounds == 1 else 's'}"

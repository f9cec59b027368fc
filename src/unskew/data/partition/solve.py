"""From a wanted EMD to a family's parameters (thesis section 3.3), in theory and on given data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from unskew.data.partition.family import Family, Task, build_family
from unskew.errors import InputError
from unskew.expression import Call, parse_one

CLOSE = 0.005  # a closed form that comes this near on the data at hand is taken as it is
MOST_LISTED = 1000  # classes: their settings are too many to read long before
TURNS = 3  # solutions tried, where the first cannot reach the EMD on the data at hand


def solutions(emd: float, classes: int, clients: int = 20) -> list[tuple[str, float]]:
    """Every family's expressions with this EMD, each with the EMD it has exactly once written down.

    For unlimited samples, equally many of each class; parameters have four digits, so the EMD next to them
    may differ in the fourth. The EMD of ``dirichlet`` is an estimate, good to about 0.005.
    """
    from unskew.data.partition import FAMILIES

    _check(emd, classes, clients)
    if classes > MOST_LISTED:
        raise InputError(
            f"settings are listed for at most {MOST_LISTED} classes, not {classes}; ask for one family's with "
            f'partition(data, "dirichlet", {clients}, emd={emd:g})'
        )
    found = []
    for cls in FAMILIES.values():
        needed = {f.name for f in _fields(cls) if f.default is dataclasses.MISSING}
        if not needed <= set(cls.free):
            continue  # mixed, by and quantity are not settled by an EMD alone
        for member in cls.solve(emd, classes, clients, {}):
            knob = getattr(member, cls.knob) if cls.knob else 0
            if isinstance(knob, float) and cls.name != "emd":
                member = _with_knob(member, float(f"{knob:.4g}"))
            reached = member.expected_emd(classes, clients)
            found.append((_written(member), emd if reached is None else reached))
    if not found:
        high = max(cls.reach(classes, clients, {})[1] for cls in FAMILIES.values() if cls.free)
        raise InputError(
            f"no family reaches EMD {emd:g}: with {classes} classes and {clients} clients it is 0 to "
            f"{high:.4g}"
        )
    return found


def _written(member: Family) -> str:
    """Its expression, with what was solved for even at its default: ``limit_labels(t=3, f=1.0)``."""
    given = {f.name: getattr(member, f.name) for f in _fields(type(member))}
    at_default = {f.name for f in _fields(type(member)) if given[f.name] == f.default} - {member.knob}
    return str(Call(member.name, (), tuple((k, v) for k, v in given.items() if k not in at_default)))


def reach(family: str | Family, classes: int, clients: int = 20) -> tuple[float, float]:
    """The lowest and highest EMD that a family has, its other parameters as given or free."""
    _check(0.0, classes, clients)
    cls, given = _open(family)
    given.pop(cls.knob, None)
    return cls.reach(classes, clients, given)


def solvable(expression: str | Family, emd: float) -> tuple[type[Family], dict[str, Any]]:
    """The family to solve for an EMD and the parameters that stay as given; refused where nothing is open."""
    cls, given = _open(expression)
    if not cls.knob:
        raise InputError(f"{expression} has no parameter that sets its EMD; leave out the EMD of {emd:g}")
    if cls.knob in given:
        raise InputError(
            f"{expression} already fixes its skew with {cls.knob}; leave out {cls.knob} or the EMD of {emd:g}"
        )
    return cls, given


def fit(expression: str | Family, emd: float, task: Task, measure: Callable[[Family], float]) -> Family:
    """The member of a family with this EMD on the data at hand, as ``measure`` finds it.

    The closed form is taken where it holds. Where it does not (a Dirichlet, unequal classes, few samples)
    the knob is turned by at most thirty halvings. Several solutions, such as the t of ``limit_labels``,
    take turns by seed.
    """
    classes, clients = len(task.present), task.clients
    _check(emd, classes, clients)
    cls, given = solvable(expression, emd)
    low, high = cls.reach(classes, clients, given)
    candidates = cls.solve(emd, classes, clients, given)
    if not low - 1e-9 <= emd <= high + 1e-9:
        raise InputError(
            f"{expression} cannot reach EMD {emd:g}: with {classes} classes and {clients} clients it is "
            f"{low:.4g} to {high:.4g}"
        )
    if not candidates:
        raise InputError(
            f"no {cls.name}({cls.knob}) has EMD {emd:g} with {classes} classes; it goes in steps, so write "
            f"limit_labels or emd, which reach every value"
        )
    turn = task.seed % len(candidates)
    best, miss = candidates[turn], math.inf
    for candidate in (candidates[turn:] + candidates[:turn])[:TURNS]:
        member, off = _turned(candidate, emd, classes, clients, measure)
        if off < miss:
            best, miss = member, off
        if miss <= CLOSE:
            return best
    ends = best.knob_ends(classes, clients)
    span = [measure(_with_knob(best, end)) for end in ends] if ends else [-math.inf, math.inf]
    if miss > 4 * CLOSE and not min(span) <= emd <= max(span):
        raise InputError(
            f"{expression} cannot reach EMD {emd:g} on these labels: with {clients} clients it is "
            f"{min(span):.4g} to {max(span):.4g}"
        )
    task.note(f"EMD {emd:g} was asked for; {best} comes nearest, {miss:.2g} off")
    return best


def _turned(
    member: Family, emd: float, classes: int, clients: int, measure: Callable[[Family], float]
) -> tuple[Family, float]:
    """The member, its knob turned until the measured EMD is the wanted one, and by how much it still is not."""
    miss, ends = abs(measure(member) - emd), member.knob_ends(classes, clients)
    if miss <= CLOSE or ends is None:
        return member, miss
    least, most = (math.log(end) for end in ends) if member.knob_is_log else ends
    for _ in range(30):
        middle = (least + most) / 2
        tried = _with_knob(member, math.exp(middle) if member.knob_is_log else middle)
        got = measure(tried)
        if abs(got - emd) < miss:
            member, miss = tried, abs(got - emd)
        if miss <= CLOSE / 5:
            break
        least, most = (middle, most) if got < emd else (least, middle)
    return member, miss


def _with_knob(member: Family, value: float) -> Family:
    return replace(member, **{member.knob: value})  # type: ignore[type-var]


def _open(expression: str | Family) -> tuple[type[Family], dict[str, Any]]:
    """A family's class and the parameters really given; those that an EMD settles may be missing."""
    from unskew.data.partition import FAMILIES, PRESETS

    if isinstance(expression, Family):
        cls = type(expression)
        return cls, {f.name: getattr(expression, f.name) for f in _fields(cls) if f.name != cls.knob}
    if expression.strip() in PRESETS:
        expression = PRESETS[expression.strip()].expression
    call = parse_one(expression, "partition")
    free: Mapping[str, Any] = FAMILIES[call.name].free if call.name in FAMILIES else {}
    names = [f.name for f in _fields(FAMILIES[call.name])] if call.name in FAMILIES else []
    given = {*names[: len(call.args)], *dict(call.kwargs)}
    filled = Call(call.name, call.args, (*call.kwargs, *((k, v) for k, v in free.items() if k not in given)))
    member = build_family(filled)
    return type(member), {name: getattr(member, name) for name in given}


def _fields(cls: type[Family]) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)  # type: ignore[arg-type]


def _check(emd: float, classes: int, clients: int) -> None:
    if not 0 <= emd < 2:
        raise InputError(f"an EMD lies between 0 and 2, not at {emd:g}")
    if classes < 1 or clients < 1:
        raise InputError(f"there must be at least one class and one client, not {classes} and {clients}")

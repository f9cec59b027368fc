"""From a wanted EMD to a family's parameters (thesis section 3.3): on average over a pool, or on given data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from unskew.arrays import Array
from unskew.data.dataset import Dataset
from unskew.data.partition.expected import ClassPool, Expected, expected_on
from unskew.data.partition.family import FAMILIES, Family, PartitionTask, build_family
from unskew.data.partition.presets import PRESETS
from unskew.data.partition.uniform import Iid
from unskew.data.partition.zero import find_zero
from unskew.errors import InputError
from unskew.expression import Call, parse_one

CLOSE = 0.005  # an EMD that comes this near is taken as it is
STEP = 0.095  # a family that goes in steps is refused where none comes nearer: half of those of ten classes
MOST_LISTED = 1000  # classes: their settings are too many to read long before
MOST_CELLS = 1_000_000  # clients x classes of a pool whose settings are simulated
MOST_SAMPLES = 2_000_000  # and its samples
TURNS = 3  # ways tried, where the first cannot reach the EMD on the data at hand
MOST_WAYS = 20  # looked at of one family, evenly spread, where each takes a simulation or a partition
GRID = 24  # settings of a knob looked at, where turning it does not reach the EMD

Given = int | Dataset | Array | Sequence[int]


def expected_emd(
    expression: str | Family,
    data: Given,
    clients: int = 20,
    *,
    fraction: float = 1.0,
    samples_per_client: int | None = None,
    min_samples: int = 1,
) -> Expected:
    """The EMD that ``partition`` with these settings has on average, and how far single partitions lie from it.

    ``data`` is a data set, its labels, or a number of classes: then of unlimited samples, equally many of each, or of
    ``samples_per_client`` in all. Where a formula is exact it is taken, and ``spread`` is 0; elsewhere a fixed number
    of partitions is drawn, always the same ones.
    """
    pool = ClassPool.of(
        data, clients, fraction=fraction, samples_per_client=samples_per_client, min_samples=min_samples
    )
    return expected_on(build_family(expression), pool)


def reach(
    family: str | Family,
    data: Given,
    clients: int = 20,
    *,
    fraction: float = 1.0,
    samples_per_client: int | None = None,
    min_samples: int = 1,
) -> tuple[Expected, Expected]:
    """The lowest and highest EMD to be expected of a family, its other parameters as given or free."""
    pool = ClassPool.of(
        data, clients, fraction=fraction, samples_per_client=samples_per_client, min_samples=min_samples
    )
    cls, given = _open(family)
    if cls.knob:
        given.pop(cls.knob, None)
    return _reached(cls, pool, given)


def _reached(cls: type[Family], pool: ClassPool, given: Mapping[str, Any]) -> tuple[Expected, Expected]:
    found = sorted(expected_on(member, pool) for member in cls.extremes(pool.task(0), given))
    return found[0], found[-1]


def solutions(
    emd: float,
    data: Given,
    clients: int = 20,
    *,
    fraction: float = 1.0,
    samples_per_client: int | None = None,
    min_samples: int = 1,
) -> list[tuple[str, Expected]]:
    """Every family's expressions with this EMD, each with the EMD to be expected of it as it is written down.

    On ``data`` as for ``expected_emd``. Parameters have four digits, so the EMD beside them may differ in the third.
    Where settings are simulated and a family has more than 20 ways to an EMD, such as the t of ``limit_labels`` of
    many classes, 20 of them are listed.
    """
    _check(emd)
    pool = ClassPool.of(
        data, clients, fraction=fraction, samples_per_client=samples_per_client, min_samples=min_samples
    )
    _listable(emd, pool)
    found = []
    searched = []
    for cls in FAMILIES.values():
        needed = {f.name for f in _fields(cls) if f.default is dataclasses.MISSING}
        if not needed <= set(cls.free):
            continue  # mixed, by and quantity are not settled by an EMD alone
        searched.append(cls)
        for member in _solved(cls, emd, pool):
            reached = expected_on(member, pool)
            if abs(reached - emd) <= 2 * CLOSE:
                found.append((_written(member), reached))
    if not found:
        ends = [end for cls in searched for end in _reached(cls, pool, {**cls.free})]
        raise InputError(
            f"no family reaches EMD {emd:g}: with {pool.classes} classes and {clients} clients it is "
            f"{min(ends)} to {max(ends)}"
        )
    return found


def _listable(emd: float, pool: ClassPool) -> None:
    instead = f'ask for one family\'s with partition(data, "dirichlet", {pool.clients}, emd={emd:g})'
    if pool.classes > MOST_LISTED:
        raise InputError(
            f"settings are listed for at most {MOST_LISTED} classes, not {pool.classes}; {instead}"
        )
    if pool.sizes is not None and (pool.clients * pool.classes > MOST_CELLS or pool.used > MOST_SAMPLES):
        raise InputError(
            f"settings are listed for at most {MOST_CELLS:,} clients x classes and {MOST_SAMPLES:,} samples, since "
            f"each is simulated; {instead}"
        )


def _solved(cls: type[Family], emd: float, pool: ClassPool) -> list[Family]:
    """Members of a family that have this EMD on average, or come as near as its steps allow."""
    found = []
    ways: list[Family] = list(cls.starts(emd, pool.classes, pool.clients, {}))
    if ways and ways[0].knob_ends(pool.task(0)) is None:
        return [_nearest_step(ways, emd, lambda member: expected_on(member, pool))[0]]
    if pool.sizes is not None and set(cls.free) - {cls.knob}:
        # chance adds to what formulas tell, so that more ways may have it
        more = max(0.0, emd - expected_on(Iid(), pool) - 4 * CLOSE)
        known = {_but_for_the_knob(way) for way in ways}
        others = cls.starts(more, pool.classes, pool.clients, {})
        ways += [way for way in others if _but_for_the_knob(way) not in known]
        ways = ways[:: math.ceil(len(ways) / MOST_WAYS)]
    for way in ways:
        try:
            member = _balanced(way, emd, pool)
        except InputError:
            continue  # some draws cannot be dealt so
        if member is not None:
            found.append(member)
    return found


def _but_for_the_knob(member: Family) -> tuple[Any, ...]:
    return tuple(getattr(member, f.name) for f in _fields(type(member)) if f.name != member.knob)


def _balanced(start: Family, emd: float, pool: ClassPool) -> Family | None:
    """The member whose knob gives this EMD on average; ``None`` where none does."""

    def off(knob: float) -> float:
        """Too much or too little skew; none where a simulation could not tell it from none."""
        found = expected_on(_with_knob(start, rounded(knob)), pool)
        unsure = max(CLOSE / 5, min(CLOSE, found.spread / math.sqrt(pool.draws) / 4))
        return 0.0 if abs(found - emd) <= unsure else float(found - emd)

    def rounded(knob: float) -> float:
        value = math.exp(knob) if start.knob_is_log else knob
        return value if start.name == "emd" and value == emd else float(f"{value:.4g}")

    def place(knob: float) -> float:
        return math.log(knob) if start.knob_is_log else knob

    ends = start.knob_ends(pool.task(0))
    assert ends is not None
    least, most = place(ends[0]), place(ends[1])
    here = place(getattr(start, start.knob))
    first = off(here)
    if not first:
        return _with_knob(start, rounded(here))
    end, pace = (most if first < 0 else least), 0.02
    while True:  # away from here until the EMD has been passed, in ever longer steps
        pace *= 4
        step = (most - least) * pace * (1 if first < 0 else -1)
        there = here + step if abs(step) < abs(end - here) else end
        second = off(there)
        if not second:
            return _with_knob(start, rounded(there))
        if (first < 0) != (second < 0):
            break
        if there == end:
            return _with_knob(start, rounded(end)) if abs(second) <= CLOSE else None
        here, first = there, second
    low, high = sorted((here, there))
    return _with_knob(
        start, rounded(find_zero(off, low, high, tolerance=(abs(most - least) + 1e-9) / 1e4, most=15))
    )


def _nearest_step(
    members: list[Family], emd: float, measure: Callable[[Family], float]
) -> tuple[Family, float]:
    """Of members in steps of falling skew the one nearest to this EMD, and how far it is off."""
    known: dict[int, float] = {}

    def at(i: int) -> float:
        if i not in known:
            try:
                known[i] = float(measure(members[i]))
            except InputError:  # too fine a cut for so few samples
                known[i] = -math.inf
        return known[i]

    low, high = 0, len(members) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if at(middle) > emd else (low, middle)
    for i in range(max(0, low - 2), min(len(members), high + 3)):  # chance may turn neighbours round
        at(i)
    best = min(known, key=lambda i: (abs(known[i] - emd), i))
    return members[best], abs(known[best] - emd)


def _written(member: Family) -> str:
    """Its expression, with what was solved for even at its default: ``limit_labels(t=3, f=1.0)``."""
    given = {f.name: getattr(member, f.name) for f in _fields(type(member))}
    at_default = {f.name for f in _fields(type(member)) if given[f.name] == f.default} - {member.knob}
    return str(Call(member.name, (), tuple((k, v) for k, v in given.items() if k not in at_default)))


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


def fit(
    expression: str | Family, emd: float, task: PartitionTask, measure: Callable[[Family], float]
) -> Family:
    """The member of a family with this EMD on the data at hand, as ``measure`` finds it.

    The closed form is taken where it holds. Where it does not (a Dirichlet, unequal classes, few samples)
    the knob is turned by at most thirty halvings. Several solutions, such as the t of ``limit_labels``,
    take turns by seed. Where none comes close, every way is looked at and the nearest is taken.
    """
    classes, clients = len(task.present), task.clients
    _check(emd)
    cls, given = solvable(expression, emd)
    seen: dict[Family, float] = {}

    def told(member: Family) -> float:
        if member not in seen:
            seen[member] = measure(member)
        return seen[member]

    every_way: list[Family] = list(cls.starts(0.0, classes, clients, given))
    smooth = every_way[0].knob_ends(task) is not None
    if smooth:
        ways: list[Family] = list(cls.starts(emd, classes, clients, given)) or every_way[:1]
        turn = task.seed % len(ways)
        for way in (ways[turn:] + ways[:turn])[:TURNS]:
            member, off = _turned(way, emd, task, told)
            if off <= CLOSE:
                return member
    else:
        _nearest_step(every_way, emd, told)
    span = [*seen.values(), *(measure(member) for member in cls.extremes(task, given))]
    beyond = not min(span) <= emd <= max(span)
    if smooth and not beyond:
        for way in every_way[:: math.ceil(len(every_way) / MOST_WAYS)]:
            _looked_at(way, task, told)
        for member in sorted(seen, key=lambda m: abs(seen[m] - emd))[:TURNS]:
            _polished(member, task, told)
    best = min(seen, key=lambda m: abs(seen[m] - emd))
    miss = abs(seen[best] - emd)
    if miss <= CLOSE:
        return best
    if beyond and miss > 4 * CLOSE:
        raise InputError(
            f"{expression} cannot reach EMD {emd:g} on these labels: with {clients} clients it is "
            f"{min(span):.4g} to {max(span):.4g}"
        )
    if miss > STEP and not smooth:
        raise InputError(
            f"no {cls.name}({cls.knob}) has EMD {emd:g} on these labels: it goes in steps, and {_written(best)} "
            f"comes nearest with {seen[best]:.4g}; write limit_labels or emd, which reach every value"
        )
    task.note(f"EMD {emd:g} was asked for; {_written(best)} comes nearest, {miss:.2g} off")
    return best


def _turned(
    member: Family, emd: float, task: PartitionTask, measure: Callable[[Family], float]
) -> tuple[Family, float]:
    """The member, its knob turned until the measured EMD is the wanted one, and by how much it still is not."""
    miss = abs(measure(member) - emd)
    if miss <= CLOSE:
        return member, miss
    ends = _oriented(member, task, measure)
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


def _oriented(member: Family, task: PartitionTask, measure: Callable[[Family], float]) -> tuple[float, float]:
    """The knob's ends, that of less skew first."""
    ends = member.knob_ends(task)
    assert ends is not None
    first, second = (measure(_with_knob(member, end)) for end in ends)
    return ends if first <= second else (ends[1], ends[0])


def _looked_at(start: Family, task: PartitionTask, measure: Callable[[Family], float]) -> None:
    """Measured at even distances between the ends of its knob: few samples jump, and halving may miss the nearest."""
    ends = start.knob_ends(task)
    assert ends is not None
    low, high = (math.log(end) for end in ends) if start.knob_is_log else ends
    for i in range(GRID + 1):
        place = high if i == GRID else low + (high - low) * i / GRID
        measure(_with_knob(start, math.exp(place) if start.knob_is_log else place))


def _polished(member: Family, task: PartitionTask, measure: Callable[[Family], float]) -> None:
    """Measured more closely about one setting, between its neighbours of the grid."""
    ends = member.knob_ends(task)
    assert ends is not None
    low, high = sorted(math.log(end) if member.knob_is_log else end for end in ends)
    here = getattr(member, member.knob)
    here, step = math.log(here) if member.knob_is_log else here, (high - low) / GRID
    for i in range(-GRID // 2, GRID // 2 + 1):
        place = here + step * 2 * i / GRID
        if low < place < high:
            measure(_with_knob(member, math.exp(place) if member.knob_is_log else place))


def _with_knob(member: Family, value: float) -> Family:
    return replace(member, **{member.knob: value})  # type: ignore[type-var]


def _open(expression: str | Family) -> tuple[type[Family], dict[str, Any]]:
    """A family's class and the parameters really given; those that an EMD settles may be missing."""
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


def _check(emd: float) -> None:
    if not 0 <= emd < 2:
        raise InputError(f"an EMD lies between 0 and 2, not at {emd:g}")

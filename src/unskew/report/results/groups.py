"""Which runs are the same thing under another seed, and which may be compared at all.

A *problem* is the data and how it was dealt: accuracies of different problems are never ranked together. Within
it a *group* is everything but the seed: one line of the leaderboard.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from unskew.errors import InputError
from unskew.expression import write_value
from unskew.report.results.gather import Record
from unskew.report.results.search import LeftOut
from unskew.report.results.spelling import canonical
from unskew.runs.describe import names
from unskew.runs.spec import Spec

WATCHING = frozenset({"seed", *names(Spec, changes_numbers=False)})
"""Settings that do not change the model: the seed makes another sample of it, the others only look, save or hurry."""

DATA = tuple(n for about in ("dealing", "holding", "reading") for n in names(Spec, about, own_problem=True))
"""Settings that make the problem. Which rows and columns of a table are used is part of it: where rows with gaps are
dropped, other columns leave other test rows."""

METHOD = ("method", "method_label")
"""Settings that say which method, and what it is called."""

BARE = frozenset({"dataset", "partition", "model", "method"})
"""Settings whose values say what they are."""


@dataclass(frozen=True, eq=False)
class Group:
    """Runs that differ in the seed alone. ``counted`` are those whose numbers enter, one a seed.

    They are the runs that are done; where none is, those that were judged at all, and ``complete`` is False.
    ``called`` is the method's own label or its expression, ``label`` that and whatever else tells groups apart.
    """

    label: str
    method: str
    called: str
    settings: Mapping[str, Any]
    runs: tuple[Record, ...]
    counted: tuple[Record, ...]
    complete: bool
    # all data in one place, every client on its own, or a method to compare
    bound: Literal["", "upper", "lower"]

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(record.spec.seed for record in self.counted)

    def rest(self) -> dict[str, Any]:
        """What is left of the settings when the data and the method are taken away."""
        return {k: v for k, v in self.settings.items() if k not in (*DATA, *METHOD)}


@dataclass(frozen=True, eq=False)
class Problem:
    """Groups on the same data, dealt in the same way."""

    name: str
    groups: tuple[Group, ...]

    @property
    def judged(self) -> tuple[Group, ...]:
        """The groups that have a number to show."""
        return tuple(group for group in self.groups if group.counted)

    def first_record(self) -> Record:
        return min((r for g in self.judged for r in g.counted), key=lambda r: r.spec.seed)


def problems(records: Sequence[Record]) -> list[Problem]:
    """Sort runs into problems and groups, in the order in which they come."""
    if not any(record.judged for record in records):
        which = records[0].name if len(records) == 1 else f"the {len(records)} runs"
        if known := next((record for record in records if record.evaluated), None):
            raise InputError(
                f"there is no {known.metric.title} in {which}: {known.blank(known.metric)}; go by another metric"
            )
        raise InputError(
            f"nothing has been evaluated yet in {which}; wait for the first evaluation, or resume what stopped"
        )
    settings = [_settings(record) for record in records]
    _split_by_data(records, settings)
    nested: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, chosen in enumerate(settings):
        nested[_key(chosen, DATA)][_key(chosen)].append(at)
    shown = _told_apart([[settings[members[0]] for members in groups.values()] for groups in nested.values()])
    found = []
    for groups in nested.values():
        made = _told_by_method(
            _group([records[at] for at in members], settings[members[0]], shown)
            for members in groups.values()
        )
        found.append(Problem(_problem_name(made[0]), made))
    return [problem for problem in found if problem.judged]


def repeats(group: Group) -> Iterable[tuple[Record, Record]]:
    """(run, the counted run that it repeats): the same settings and seed in another folder."""
    first = {record.spec.seed: record for record in group.counted}
    for record in group.runs:
        counted = first.get(record.spec.seed)
        if counted is not None and counted is not record:
            yield record, counted


def _settings(record: Record) -> dict[str, Any]:
    chosen = {k: v for k, v in record.spec.as_dict().items() if k not in WATCHING}
    chosen["clients"] = record.data.get("clients", chosen["clients"])  # so that a default equals its value
    if isinstance(chosen["cohort"], int) and chosen["clients"]:
        chosen["cohort"] = min(chosen["cohort"], chosen["clients"])  # all that there are
    chosen["device"] = record.data.get("device", chosen["device"])  # which GPU it was says nothing
    chosen["method_label"] = None if record.called == record.spec.method else record.called
    if record.data.get("given"):
        chosen["dataset"] = record.data.get("name", chosen["dataset"])
    if (column := chosen["client"]) and chosen["partition"] == f"by({write_value(column)})":
        chosen["client"] = None  # which says the same again
    return chosen


def _split_by_data(records: Sequence[Record], settings: list[dict[str, Any]]) -> None:
    """Where the same settings and seed met different data, the data is part of the problem."""
    content: dict[tuple[str, int], set[str]] = defaultdict(set)
    places: dict[str, list[int]] = defaultdict(list)
    for at, (record, chosen) in enumerate(zip(records, settings, strict=True)):
        content[_key(chosen), record.spec.seed].add(record.data.get("sha256", ""))
        places[_key(chosen, DATA)].append(at)
    mixed = {key for (key, _), hashes in content.items() if len(hashes) > 1}
    for members in places.values():
        if any(_key(settings[at]) in mixed for at in members):
            for at in members:
                settings[at]["dataset"] += f" ({records[at].data.get('sha256', '')[:6]})"


def _key(chosen: Mapping[str, Any], names: Iterable[str] | None = None) -> str:
    kept = {k: chosen[k] for k in (names or chosen)}
    if "method" in kept:
        kept["method"] = canonical(kept["method"])
    return json.dumps(kept, sort_keys=True)


def _told_apart(tables: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The settings beside the method that differ within some problem: what a label must say."""
    names = [f.name for f in fields(Spec) if f.name not in WATCHING and f.name not in (*DATA, *METHOD)]
    return [n for n in names if any(len({json.dumps(s[n]) for s in table}) > 1 for table in tables)]


def _group(runs: list[Record], chosen: Mapping[str, Any], shown: Sequence[str]) -> Group:
    done = [record for record in runs if record.status == "done" and record.judged]
    by_seed: dict[int, Record] = {}
    for record in sorted(done or [r for r in runs if r.judged], key=lambda r: -r.round):
        by_seed.setdefault(record.spec.seed, record)
    method, called = runs[0].spec.method, runs[0].called
    return Group(
        # a setting that is off by default (drop=0) is said only where it is on
        label=" · ".join([called, *(_said(n, chosen[n]) for n in shown if chosen[n] or _default(n))]),
        method=method,
        called=called,
        settings=chosen,
        runs=tuple(sorted(runs, key=lambda r: r.spec.seed)),
        counted=tuple(by_seed[seed] for seed in sorted(by_seed)),
        complete=bool(done),
        bound=_bound(canonical(method).split("+")),
    )


def _bound(parts: Sequence[str]) -> Literal["", "upper", "lower"]:
    return "upper" if "pooled" in parts else "lower" if "alone" in parts else ""


def _told_by_method(groups: Iterable[Group]) -> tuple[Group, ...]:
    """Groups of which no two go by the same label: two methods that were given one say also which they are."""
    made = tuple(groups)
    times = Counter(group.label for group in made)
    return tuple(
        replace(group, label=f"{group.label} ({group.method})") if times[group.label] > 1 else group
        for group in made
    )


def _problem_name(group: Group) -> str:
    chosen, record = group.settings, group.runs[0]
    dataset = str(chosen["dataset"])
    if not record.data.get("given") and "/" in dataset:
        dataset = dataset.rstrip("/").rsplit("/", 1)[-1]
    words = [dataset, str(chosen["partition"]), f"{chosen['clients'] or 'all'} clients"]
    said = ("dataset", "label", "client", "partition", "clients")
    rest = [n for n in DATA if n not in said and chosen[n] != _default(n)]
    return " · ".join(words + [_said(name, chosen[name]) for name in rest])


def _default(name: str) -> Any:
    return next(f.default for f in fields(Spec) if f.name == name)


def _said(name: str, value: Any) -> str:
    if isinstance(value, float):
        value = f"{value:g}"
    if isinstance(value, tuple | list):
        value = ",".join(map(str, value))
    return str(value) if name in BARE else f"{name}={'default' if value is None else value}"


def uncounted(records: Iterable[Record], groups: Iterable[Group]) -> list[LeftOut]:
    """The runs that were read and that no number is of."""
    made = list(groups)
    counted = {id(record) for group in made for record in group.counted}
    again = {id(record): other for group in made for record, other in repeats(group)}
    found = []
    for record in records:
        if id(record) in counted:
            continue
        at = f"{record.status} after round {record.round} of {record.spec.rounds}"
        if record.evaluated and not record.judged:
            why = f"it has no {record.metric.title}: {record.blank(record.metric)}"
        elif not record.judged:
            error = record.result.get("error")
            why = f"nothing was evaluated ({at}{f': {error}' if error else ''})"
        elif id(record) in again:
            why = f"it has the settings and the seed of {again[id(record)].name}"
        else:
            why = f"it is {at}, and runs of its kind are done"
        found.append(LeftOut(record.name, why, record.status != "done"))
    return found

"""How to get the same runs again: an experiment file and the command for it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Any

from unskew.report.results.gather import Record
from unskew.report.results.groups import Group
from unskew.runs.spec import STOPPING, Spec, toml_value
from unskew.version import __version__


@dataclass(frozen=True)
class Recipe:
    """An experiment file with its commands; ``notes`` say what it cannot bring along."""

    toml: str
    commands: tuple[str, ...]
    notes: tuple[str, ...] = ()


def whole(groups: Sequence[Group]) -> Recipe | None:
    """One sweep that repeats every run; None where they are no full grid, or there is only one."""
    records = [record for group in groups for record in group.runs]
    specs = list(dict.fromkeys(record.spec for record in records))
    swept: dict[str, list[Any]] = {}
    for f in fields(Spec):
        values = list(dict.fromkeys(getattr(spec, f.name) for spec in specs))
        if len(values) > 1:
            swept[f.name] = values
    if not swept or math.prod(map(len, swept.values())) != len(specs):
        return None
    if any(value is None or isinstance(value, tuple) for values in swept.values() for value in values):
        return None  # TOML has no word for none
    table = "".join(f"{name} = {_list(name, values)}\n" for name, values in swept.items())
    return Recipe(
        f"{_settings(specs[0], swept)}\n[sweep]\n{table}",
        ("unskew sweep experiment.toml --out runs/again", "unskew report runs/again"),
        _notes(records),
    )


def shared(groups: Sequence[Group]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What all runs have in common, once, and (label, what is its own) of every group: a grid that is none."""
    firsts = [group.runs[0].spec for group in groups]
    differs = [
        f.name for f in fields(Spec) if len({json.dumps(getattr(spec, f.name)) for spec in firsts}) > 1
    ]
    differs = [name for name in differs if name != "seed"]
    own = []
    for group, spec in zip(groups, firsts, strict=True):
        named = {name: value for name in differs if (value := getattr(spec, name)) not in (None, ())}
        lines = [f"{name} = {toml_value(value)}" for name, value in named.items()]
        seeds = sorted({record.spec.seed for record in group.runs})
        lines.append(f"seed = {_list('seed', seeds) if len(seeds) > 1 else seeds[0]}")
        own.append((group.label, "\n".join(lines)))
    return _settings(firsts[0], [*differs, "seed"]), tuple(own)


def alone(group: Group) -> Recipe:
    """One group: its settings, and its seeds as a sweep where there are several."""
    seeds = sorted({record.spec.seed for record in group.runs})
    spec = group.runs[0].spec
    if len(seeds) == 1:
        return Recipe(
            _settings(spec, ()), ("unskew run experiment.toml --out runs/again",), _notes(group.runs)
        )
    return Recipe(
        f"{_settings(spec, ['seed'])}\n[sweep]\nseed = {_list('seed', seeds)}\n",
        ("unskew sweep experiment.toml --out runs/again",),
        _notes(group.runs),
    )


def _notes(records: Sequence[Record]) -> tuple[str, ...]:
    said = []
    if any(record.data.get("given") for record in records):
        said.append("The data was given in Python: repeat it there, with dataset=... in unskew.run().")
    if any(record.data.get("own_model") for record in records):
        said.append("The model was given in Python: repeat it there, with model=... in unskew.run().")
    if any(record.stopped and record.stopped.by not in STOPPING for record in records):
        said.append("A watcher given in Python ended it: repeat it there, with watch=[...] in unskew.run().")
    return tuple(said)


def _settings(spec: Spec, without: Collection[str]) -> str:
    named = {name: getattr(spec, name) for name in ("dataset", "partition", "method")} | spec.changed()
    lines = "".join(f"{name} = {toml_value(value)}\n" for name, value in named.items() if name not in without)
    return f"# unskew {__version__}; a setting that is not named has its default\n{lines}"


def _list(name: str, values: Sequence[Any]) -> str:
    if name == "seed" and len(values) > 2 and sorted(values) == list(range(min(values), max(values) + 1)):
        return f'"{min(values)}-{max(values)}"'
    return toml_value(list(values))

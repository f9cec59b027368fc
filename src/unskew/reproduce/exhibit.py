"""An exhibit: a table or a figure of a paper, what it takes to make it again, and the paper's own numbers.

Each is one file in ``exhibits/``; the list is that folder. Settings are recipes (``recipes/``), which are experiment
files as any; an exhibit says which of their cells are which of the paper's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from unskew.errors import InputError, unknown

HERE = Path(__file__).parent
Reading = Literal["best", "end"]


@dataclass(frozen=True)
class Cell:
    """One claim: what a method gains over its base in a group, in points of accuracy, as the paper prints it."""

    exhibit: str
    group: str
    method: str
    over: str
    printed: float | None  # nothing where the paper has no number: an experiment of our own

    @property
    def name(self) -> str:
        return f"{self.group}/{self.method}"


@dataclass(frozen=True)
class Group:
    """One setting of an exhibit: a data set and a split, on which several methods are compared."""

    exhibit: str
    name: str
    said: str
    recipe: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    base: str = "fedavg"
    over: Mapping[str, str] = field(default_factory=dict)
    accuracy: Mapping[str, float] = field(default_factory=dict)  # printed in the paper, per cent
    gains: Mapping[str, float] = field(default_factory=dict)  # printed there instead, points
    own: tuple[str, ...] = ()  # methods that are ours: the paper has no number of them
    differs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # settings of single methods
    tail: int = 1  # evaluations whose mean is "the end"
    # of the split with seed 0: what the diagnosis compares
    skew: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def methods(self) -> tuple[str, ...]:
        """Every method that is run, the base first."""
        return tuple(dict.fromkeys((self.base, *self.accuracy, *self.gains, *self.own)))

    def base_of(self, method: str) -> str:
        """What a method is compared with."""
        return self.over.get(method, self.base)

    @property
    def cells(self) -> list[Cell]:
        """What is compared: every method with its base."""
        return [
            Cell(self.exhibit, self.name, m, self.base_of(m), self.printed(m))
            for m in self.methods
            if m != self.base
        ]

    def printed(self, method: str) -> float | None:
        """The paper's gain in points."""
        if method in self.gains:
            return self.gains[method]
        base = self.base_of(method)
        if method in self.accuracy and base in self.accuracy:
            return round(self.accuracy[method] - self.accuracy[base], 2)
        return None

    def experiment(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Settings, and what is swept: the recipe's, with what differs here."""
        from unskew.runs.experiment_file import read_toml

        settings, sweep = read_toml(HERE / "recipes" / f"{self.recipe}.toml")
        return {**settings, **self.settings}, {"method": list(self.methods), "seed": sweep.get("seed", [0])}

    def settings_of(self, method: str) -> dict[str, Any]:
        """What one method is run with."""
        return {**self.experiment()[0], **self.differs.get(method, {})}


@dataclass(frozen=True)
class Exhibit:
    """A table or a figure, as its file says it."""

    name: str
    paper: str
    where: str
    title: str
    read: Reading  # which of our numbers is the paper's: the best round, or the end
    end: str  # what "the end" is here, in words
    cpu: str
    gpu: str
    page: str
    note: str
    groups: tuple[Group, ...]
    # whether the diagnosis may recommend from it: not from variations of another's setting
    evidence: bool = True
    makes: str = ""  # package.module:function, where there is more to tell than gains: see making.py
    # of rounds, seeds and data_folder, what that function heeds; runs of groups heed all
    takes: tuple[str, ...] = ()
    draws: str = ""  # package.module:function, where its picture is not of accuracy over rounds
    picture: str = ""  # the only ending that its picture can have, where not any of drawing.py's
    options: Mapping[str, Any] = field(default_factory=dict)  # of the function that makes it
    table: Mapping[str, Any] = field(default_factory=dict)  # how its rows are laid out where not as they are

    @property
    def cells(self) -> list[Cell]:
        return [cell for group in self.groups for cell in group.cells]


@cache
def exhibits() -> dict[str, Exhibit]:
    """Every exhibit by name, in the order of the files."""
    return {made.name: made for made in map(_read, sorted((HERE / "exhibits").glob("*.toml")))}


def exhibit_of(name: str) -> Exhibit:
    """The exhibit of this name, or one sentence."""
    known = exhibits()
    if name not in known:
        raise unknown("exhibit", name, known)
    return known[name]


def chosen_groups(exhibit: Exhibit, wanted: list[str]) -> Iterator[tuple[Group, tuple[str, ...]]]:
    """The groups and methods that ``--cells`` names: a group, a method, or group/method; all where nothing is named."""
    known = {word for c in exhibit.cells for word in (c.group, c.method, c.name)}
    known |= {word for g in exhibit.groups for m in g.methods for word in (m, f"{g.name}/{m}")}
    for word in wanted:
        if word not in known:
            raise unknown(f"cell of {exhibit.name}", word, sorted(known))
    for group in exhibit.groups:
        named = [m for m in group.methods if {group.name, m, f"{group.name}/{m}"} & set(wanted)]
        methods = group.methods if not wanted else tuple(named)
        if methods:
            bases = [group.base_of(m) for m in methods]
            yield group, tuple(m for m in group.methods if m in (*methods, *bases))


def _read(file: Path) -> Exhibit:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
        name = file.stem
        written: list[dict[str, Any]] = table.pop("groups", [])
        for one in written:
            one["own"] = tuple(one.get("own", ()))
        groups = tuple(Group(exhibit=name, **one) for one in written)
        table["takes"] = tuple(table.get("takes", ()))
        return Exhibit(name=name, groups=groups, **{"note": "", **table})
    except (ValueError, TypeError, KeyError) as problem:
        raise InputError(f"the exhibit {file.name} cannot be read: {problem}") from None

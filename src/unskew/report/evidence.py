"""What the book of results says of data like yours: the nearest settings, and what each method gained there.

``evidence.json`` is made of the repository's results (``docs/book/make.py``): a setting's skew and scarcity, and gains
over FedAvg in points of accuracy with half the 95% interval. How near a setting is is a distance of four numbers: the
EMD beyond chance as a share of the most there can be, the share of empty client-class pairs, and the logarithms of the
median client's size and of the number of classes. Where skew is no more than chance, no skewed setting is near.

Methods are ranked by what is sure of them: the mean of their gains over all settings within reach, nearer ones counting
more, less half the 95% interval of that mean. A setting where a method was not run counts as no gain, and a number of a
single seed as plus or minus itself, so that alone it makes nothing sure. Recommended is what is sure to gain and was
run in a setting that is near.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unskew.expression import parse
from unskew.parts.catalogue import disclosed_by
from unskew.report.situation import Situation, beyond_chance

FILE = Path(__file__).parent / "evidence.json"

EMD_UNIT, SPARSITY_UNIT, TIMES_UNIT = 0.2, 0.25, math.log(3)
"""What counts as one step apart: a fifth of the EMD's range, a quarter of the pairs, three times as many samples or
classes."""

NEAR, FAR = 1.0, 2.0
"""Steps up to which a setting is near, and beyond which it says nothing."""

LAYER = "LAYER"
"""What stands for a layer, of which each model has its own (``unskew models NAME`` lists them)."""

NAMED = 3
"""Settings that a sentence names; the others are counted."""


@dataclass(frozen=True)
class Likeness:
    """What settings are compared by."""

    emd: float  # beyond chance, of the most there can be; 0 where it is no more than chance
    sparsity: float
    median_size: float
    classes: int

    def steps(self, other: Likeness) -> dict[str, float]:
        """How far apart these are, by each of the numbers."""
        size = math.log(max(1.0, self.median_size) / max(1.0, other.median_size))
        return {
            "skew": abs(self.emd - other.emd) / EMD_UNIT if bool(self.emd) == bool(other.emd) else math.inf,
            "empty client-class pairs": abs(self.sparsity - other.sparsity) / SPARSITY_UNIT,
            "samples of a client": abs(size) / TIMES_UNIT,
            "number of classes": abs(math.log(self.classes / other.classes)) / TIMES_UNIT,
        }

    def apart(self, other: Likeness) -> float:
        """How far apart these are, in all."""
        return math.hypot(*self.steps(other).values())


THE_BOOK = "the book: the results that come with unskew, of the papers' settings run anew and of other data"
"""What it is, for who reads of it first here."""


@dataclass(frozen=True)
class Setting:
    """A setting of the book: where it is from, how skewed and scarce, and what methods gained over FedAvg there."""

    exhibit: str
    group: str
    said: str
    dataset: str
    emd: float
    sparsity: float
    median_size: float
    classes: int
    gains: Mapping[str, Mapping[str, Any]]  # by method: mean, half (or None), seeds

    @property
    def like(self) -> Likeness:
        return Likeness(self.emd, self.sparsity, self.median_size, self.classes)


@dataclass(frozen=True)
class Measured:
    """What a method gained over FedAvg in one setting, in points."""

    distance: float
    setting: Setting
    found: Mapping[str, Any]

    @property
    def weight(self) -> float:
        return math.exp(-(self.distance**2))

    @property
    def mean(self) -> float:
        return float(self.found["mean"])

    @property
    def half(self) -> float:
        """Half the 95% interval; of a single seed, which has none, all that it gained or lost."""
        return abs(self.mean) if self.found["half"] is None else float(self.found["half"])

    def __str__(self) -> str:
        return f"{points(self.found)} in {self.setting.said} ({self.distance:.1f} steps away)"


@dataclass(frozen=True)
class Expected:
    """What to expect of a method, from the settings within reach where it was run, nearest first."""

    method: str
    measured: tuple[Measured, ...]
    reach: float  # weight of all settings within reach, also of those where it was not run

    @property
    def weight(self) -> float:
        return sum(m.weight for m in self.measured)

    @property
    def mean(self) -> float:
        """The mean of its gains, nearer settings counting more."""
        return sum(m.weight * m.mean for m in self.measured) / self.weight

    @property
    def half(self) -> float:
        """Half the 95% interval of that mean."""
        return math.hypot(*(m.weight * m.half for m in self.measured)) / self.weight

    @property
    def sure(self) -> float:
        """The lower end of that interval, where settings in which it was not run count as no gain."""
        return (self.mean - self.half) * self.weight / self.reach

    @property
    def gains(self) -> bool:
        """Whether it can be recommended: it is sure to gain, and was run in a setting that is near."""
        return self.sure > 0 and is_near(self.measured[0].distance)

    @property
    def lost(self) -> bool:
        """Whether it is sure to have lost, as far as the book can tell, and was run in a setting that is near."""
        return self.mean + self.half < 0 and is_near(self.measured[0].distance)

    @property
    def parts(self) -> frozenset[str]:
        """The names of its parts."""
        return frozenset(call.name for call in parse(self.method))

    @property
    def discloses(self) -> tuple[str, ...]:
        """What leaves a client beyond model updates, in the words of its parts."""
        return tuple(dict.fromkeys(what.rpartition(" (")[0] for what in disclosed_by(self.method)))

    def __str__(self) -> str:
        more = len(self.measured) - NAMED
        named = ", ".join(map(str, self.measured[:NAMED]))
        return f"{self.method}, {named}" + (f" and {more} more setting{'s' * (more > 1)}" if more > 0 else "")


@dataclass(frozen=True)
class Evidence:
    """What is known near some data: settings with their distance, nearest first, and methods, the surest first."""

    near: tuple[tuple[float, Setting], ...] = ()
    expected: tuple[Expected, ...] = ()
    why_none: str = "no setting was measured"  # where nothing is near
    unfit: frozenset[str] = frozenset()  # parts that the data or the plan at hand speaks against (advice.py)

    @property
    def gaining(self) -> list[Expected]:
        """What is sure to gain and fits, the surest first."""
        return [e for e in self.expected if e.gains and not e.parts & self.unfit]

    @property
    def passed_over(self) -> list[Expected]:
        """What is surer to gain than that and does not fit."""
        surer = itertools.takewhile(lambda e: e is not self.best, self.expected)
        return [e for e in surer if e.gains]

    @property
    def best(self) -> Expected | None:
        """What is surest to gain, if anything is."""
        return next(iter(self.gaining), None)

    @property
    def best_undisclosing(self) -> Expected | None:
        """The same among methods that disclose nothing beyond model updates."""
        return next((e for e in self.gaining if not e.discloses), None)

    @property
    def recommended(self) -> str | None:
        return None if self.best is None else self.best.method

    @property
    def headline(self) -> str:
        """What is near, what is recommended from it, what that discloses, and what to take that discloses nothing."""
        if not self.near:
            return (
                f"The book has no setting like this data: {self.why_none}. So nothing that was measured speaks for or "
                "against a method here."
            )
        distance, setting = self.near[0]
        first = f"The nearest setting of the book is {setting.said}, {distance:.1f} steps away"
        if not is_near(distance):
            return f"{first}: only roughly like this, and too far to recommend a method from."
        first += ", which is near."
        if self.passed_over:
            named = [e.method for e in self.passed_over]
            more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
            first += f" Passed over, since a part of it does not fit here, see above: {', '.join(named[:NAMED])}{more}."
        if self.best is None:
            other = "other " if self.passed_over else ""
            return f"{first} No {other}method that was run near this data is sure to gain over FedAvg."
        told = (
            f"{first} Of the methods run near this data, surest to gain over FedAvg, in points: {self.best}."
        )
        if not self.best.discloses:
            return f"{told} It discloses nothing beyond model updates."
        told += f" It discloses {', '.join(self.best.discloses)}."
        if self.best_undisclosing is None:
            return f"{told} None that discloses nothing beyond model updates is sure to gain."
        return f"{told} Surest of those that disclose nothing beyond model updates: {self.best_undisclosing}."

    def rows(self, most: int = 3, methods: int = 4) -> list[tuple[str, str, str]]:
        """For a table: a near setting, how many steps away it is, and what gained and lost most there."""
        named = {e.method for e in (self.best, self.best_undisclosing) if e is not None}
        return [
            (s.said, f"{distance:.1f}", told(s.gains, methods, named)) for distance, s in self.near[:most]
        ]

    def as_dict(self) -> dict[str, Any]:
        undisclosing = self.best_undisclosing
        return {
            "headline": self.headline,
            "recommended": self.recommended,
            "discloses": [] if self.best is None else list(self.best.discloses),
            "recommended_disclosing_nothing": None if undisclosing is None else undisclosing.method,
            "near": [
                {"steps": round(distance, 2), "exhibit": s.exhibit, "setting": s.said, "gains": dict(s.gains)}
                for distance, s in self.near
            ],
            "expected": [
                {
                    "method": e.method,
                    "points": round(e.mean, 2),
                    "half": round(e.half, 2),
                    "settings": len(e.measured),
                    "sure": round(e.sure, 2),
                }
                for e in self.expected
            ],
        }


def is_near(distance: float) -> bool:
    return round(distance, 1) <= NEAR  # as it is shown


def points(found: Mapping[str, Any]) -> str:
    """A gain with half its interval, or that there is none."""
    return f"{signed(found['mean'])} " + ("(1 seed)" if found["half"] is None else f"± {found['half']:.1f}")


def signed(points: float) -> str:
    """Points with their sign, to one decimal; what is 0.0 then has none."""
    return f"{points:+.1f}" if round(points, 1) else "0.0"


def told(gains: Mapping[str, Mapping[str, Any]], most: int, named: Collection[str] = ()) -> str:
    """Gains over FedAvg in words, the largest first; where not all are told, what lost most and ``named`` ones are."""
    ranked = sorted(gains.items(), key=lambda item: -item[1]["mean"])
    kept = ranked
    if len(ranked) > most:
        kept = [
            (method, found)
            for at, (method, found) in enumerate(ranked)
            if at < most - 1 or at == len(ranked) - 1 or form(method) in named
        ]
    words = []
    for method, found in kept:
        half = "" if found["half"] is None else f" ± {found['half']:.1f}"
        seeds = f"{found['seeds']} seed{'s' if found['seeds'] > 1 else ''}"
        words.append(f"{method} {signed(found['mean'])}{half} ({seeds})")
    return ", ".join(words)


@cache
def book() -> tuple[Setting, ...]:
    """Every setting that was measured."""
    return tuple(Setting(**entry) for entry in json.loads(FILE.read_text("utf-8")))


def evidence_for(situation: Situation, settings: Iterable[Setting] | None = None) -> Evidence:
    """The evidence for data in this situation."""
    if situation.one_class:
        return Evidence(why_none="all samples are of one class, and there is nothing to learn")
    emd = beyond_chance(situation.emd, situation.chance_emd, situation.ceiling)
    like = Likeness(emd, situation.sparsity, situation.median_size, situation.classes)
    return gather(like, book() if settings is None else settings)


def gather(like: Likeness, settings: Iterable[Setting]) -> Evidence:
    """Settings within reach, nearest first; methods by what is sure of them."""
    apart = sorted(((like.apart(s.like), s) for s in settings), key=lambda pair: pair[0])
    near = tuple((distance, s) for distance, s in apart if distance <= FAR)
    if not near:
        return Evidence(why_none=_why_none(like, apart)) if apart else Evidence()
    measured: dict[str, list[Measured]] = {}
    for distance, setting in near:
        for method, found in setting.gains.items():
            measured.setdefault(form(method), []).append(Measured(distance, setting, found))
    reach = sum(math.exp(-(distance**2)) for distance, _ in near)
    expected = [Expected(method, tuple(found), reach) for method, found in measured.items()]
    return Evidence(near, tuple(sorted(expected, key=lambda e: -e.sure)))


def _why_none(like: Likeness, apart: Sequence[tuple[float, Setting]]) -> str:
    """What sets data apart from the settings, none of which is within reach."""
    distance, nearest = apart[0]
    if math.isinf(distance):
        return (
            "its skew is no more than chance, and what was measured is skewed"
            if not like.emd
            else ("it is skewed, and what was measured is not")
        )
    steps = like.steps(nearest.like)
    return f"the nearest is {nearest.said}, {distance:.1f} steps away, most by the {max(steps, key=steps.__getitem__)}"


def form(method: str) -> str:
    """A method as it is written for any model: with a word for the layer at which FLea cuts this one."""
    return re.sub(r"\bflea\(\w+", f"flea({LAYER}", method)


def held_out(settings: Sequence[Setting] | None = None) -> list[dict[str, Any]]:
    """Recommendations made without a data set, judged on it: one entry a setting of that data set.

    ``recommended`` is what would be recommended there; ``judged`` the first of the recommendations, the surest first,
    that was run there in the same form; ``gain`` what it gained over FedAvg there. Nothing of the data set itself takes
    part in the choice, but for which methods were run there.
    """
    known = book() if settings is None else settings
    judged = []
    for setting in known:
        others = [s for s in known if s.dataset != setting.dataset]
        there = {form(method): float(found["mean"]) for method, found in setting.gains.items()}
        found = gather(setting.like, others)
        tried = next((e.method for e in found.expected if e.gains and e.method in there), None)
        judged.append(
            {
                "setting": setting.said,
                "exhibit": setting.exhibit,
                "recommended": found.recommended,
                "judged": tried,
                "gain": None if tried is None else there[tried],
                "run_there": len(there),
                "won_there": sum(gained > 0 for gained in there.values()),
            }
        )
    return judged

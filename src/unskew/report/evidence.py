"""What the book of results says of data like yours: the nearest settings, and what each method gained there.

``evidence.json`` is made of the repository's results (``docs/book/make.py``): a setting's skew and scarcity, and gains
over FedAvg in points of accuracy with half the 95% interval. How near a setting is is a distance of three numbers: the
EMD as a share of the largest there can be, the share of empty client-class pairs, and the logarithm of the median
client's size.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from unskew.report.situation import Situation

FILE = Path(__file__).parent / "evidence.json"

EMD_UNIT, SPARSITY_UNIT, SIZE_UNIT = 0.2, 0.25, math.log(3)
"""What counts as one step apart: a fifth of the EMD's range, a quarter of the pairs, three times as many samples."""

NEAR, FAR = 1.0, 2.0
"""Steps up to which a setting is near, and beyond which it says nothing."""


@dataclass(frozen=True)
class Setting:
    """A setting of the book: where it is from, how skewed and scarce, and what methods gained over FedAvg there."""

    exhibit: str
    group: str
    said: str
    dataset: str
    emd: float  # of the largest there can be
    sparsity: float
    median_size: float
    gains: Mapping[str, Mapping[str, Any]]  # by method: mean, half (or None), seeds

    def apart(self, emd: float, sparsity: float, median_size: float) -> float:
        """How many steps this is from data with these numbers."""
        size = math.log(max(1.0, self.median_size) / max(1.0, median_size))
        steps = (self.emd - emd) / EMD_UNIT, (self.sparsity - sparsity) / SPARSITY_UNIT, size / SIZE_UNIT
        return math.hypot(*steps)


@dataclass(frozen=True)
class Evidence:
    """What is known near some data: settings with their distance, nearest first, and methods by what to expect."""

    near: tuple[tuple[float, Setting], ...]
    expected: tuple[tuple[str, float, int], ...]  # part or parts, points expected, settings behind it

    @property
    def recommended(self) -> str | None:
        """What gained most there, if anything did."""
        return self.expected[0][0] if self.expected and self.expected[0][1] > 0 else None

    @property
    def headline(self) -> str:
        """In one sentence."""
        if not self.near:
            return (
                "The book has no setting like this data: nothing that was measured speaks for or against a method "
                "here."
            )
        distance, setting = self.near[0]
        how = "near" if distance <= NEAR else "only roughly like this"
        first = f"The nearest setting of the book is {setting.said} ({distance:.1f} steps away: {how})"
        if self.recommended is None:
            return f"{first}; no method gained over FedAvg there."
        name, points, settings = self.expected[0]
        behind = f"{settings} setting{'s' if settings > 1 else ''}"
        return f"{first}; {name} gained most around there, about {points:+.1f} points ({behind})."

    def rows(self, most: int = 3, methods: int = 4) -> list[tuple[str, str, str]]:
        """For a table: a near setting, how many steps away it is, and what gained and lost most there."""
        return [(s.said, f"{distance:.1f}", told(s.gains, methods)) for distance, s in self.near[:most]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "headline": self.headline,
            "recommended": self.recommended,
            "near": [
                {"steps": round(distance, 2), "exhibit": s.exhibit, "setting": s.said, "gains": dict(s.gains)}
                for distance, s in self.near
            ],
            "expected": [{"method": m, "points": round(p, 2), "settings": n} for m, p, n in self.expected],
        }


def told(gains: Mapping[str, Mapping[str, Any]], most: int) -> str:
    """Gains over FedAvg in words, the largest first; what lost most stands last where not all are told."""
    ranked = sorted(gains.items(), key=lambda item: -item[1]["mean"])
    kept = ranked if len(ranked) <= most else [*ranked[: most - 1], ranked[-1]]
    words = []
    for method, found in kept:
        half = "" if found["half"] is None else f" ± {found['half']:.1f}"
        seeds = f"{found['seeds']} seed{'s' if found['seeds'] > 1 else ''}"
        words.append(f"{method} {found['mean']:+.1f}{half} ({seeds})")
    return ", ".join(words)


@cache
def book() -> tuple[Setting, ...]:
    """Every setting that was measured."""
    return tuple(Setting(**entry) for entry in json.loads(FILE.read_text("utf-8")))


def evidence_for(situation: Situation, settings: Iterable[Setting] | None = None) -> Evidence:
    """The evidence for data in this situation."""
    share = situation.emd / situation.ceiling if situation.ceiling else 0.0
    known = book() if settings is None else settings
    return gather(share, situation.sparsity, situation.median_size, known)


def gather(emd: float, sparsity: float, median_size: float, settings: Iterable[Setting]) -> Evidence:
    """Settings within reach, nearest first; methods by the mean of their gains, nearer settings counting more."""
    apart = sorted(((s.apart(emd, sparsity, median_size), s) for s in settings), key=lambda pair: pair[0])
    near = tuple((distance, s) for distance, s in apart if distance <= FAR)
    weighed: dict[str, list[tuple[float, float]]] = {}
    for distance, setting in near:
        for method, found in setting.gains.items():
            weighed.setdefault(form(method), []).append((math.exp(-(distance**2)), sure(found)))
    expected = [
        (name, sum(w * g for w, g in pairs) / sum(w for w, _ in pairs), len(pairs))
        for name, pairs in weighed.items()
    ]
    return Evidence(near, tuple(sorted(expected, key=lambda told: -told[1])))


def sure(found: Mapping[str, Any]) -> float:
    """What of a gain can be relied on: half of it where there was one seed, else the mean."""
    return float(found["mean"]) / 2 if found["seeds"] < 2 else float(found["mean"])


def form(method: str) -> str:
    """A method as it can be written for any model: without the layer at which FLea cuts this one."""
    return re.sub(r"\bflea\((\w+)(?:, )?", "flea(", method).replace("flea()", "flea")


def held_out(settings: Sequence[Setting] | None = None) -> list[dict[str, Any]]:
    """Recommendations made without a data set, judged on it: one entry a setting of that data set.

    ``recommended`` is what would be recommended there; ``judged`` the first of the recommendations, the best expected
    first, that was run there in the same form; ``gain`` what it gained over FedAvg there. Nothing of the data set
    itself takes part in the choice, but for which methods were run there.
    """
    known = book() if settings is None else settings
    judged = []
    for setting in known:
        others = [s for s in known if s.dataset != setting.dataset]
        there = {form(method): float(found["mean"]) for method, found in setting.gains.items()}
        found = gather(setting.emd, setting.sparsity, setting.median_size, others)
        tried = next((name for name, points, _ in found.expected if points > 0 and name in there), None)
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

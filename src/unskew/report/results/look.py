"""How a group of runs looks: a method has its colour, the same in every report, whoever else is in it.

The colour is a function of the method's expression alone. Where two methods of a report share one, their dashes
differ; where one method was run with several settings, its colour comes in shades, in the order of the settings.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from unskew.report.results.gather import natural_key
from unskew.report.results.groups import Group
from unskew.report.results.leaderboard import Row
from unskew.report.results.spelling import canonical
from unskew.report.theme import BLUE, GREEN, MUTED, ON_LIGHT, ORANGE, PALETTE, PINK, RED, SKY, YELLOW

DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [12, 4], [4, 2, 1, 2])
LINES = tuple(colour for colour in PALETTE if colour != YELLOW)  # yellow vanishes on paper as a line

VIOLET, BROWN, OLIVE = "#8A63D2", "#9C6B30", "#93A11A"
CRIMSON, TEAL, MUSTARD = "#C8385A", "#2AA5B5", "#B39F34"

KNOWN = {
    "fedavg": BLUE,
    "fedprox": ORANGE,
    "scaffold": GREEN,
    "sem": RED,
    "phase_shift": SKY,
    "flea": PINK,
    "kld": VIOLET,
    "feddyn": BROWN,
    "fednova": OLIVE,
    "moon": CRIMSON,
    "fedlc": TEAL,
    "fedaug": MUSTARD,
}
"""Methods that are met most often, each alone."""

OTHERS = (
    *("#DF7B90", "#9C4437", "#DA874F", "#8A5700", "#B39F34", "#5A6D00", "#6DB269"),
    *("#007852", "#00B7AD", "#8D96EB", "#6F519C", "#C483CB", "#924372"),
)
"""Hues for every other combination, light and dark in turn; none of them a blue, which is fedavg's."""

TINTS = (0.0, 0.3, -0.15, 0.15)
"""How much darker or lighter than its method's hue a method with values of its own is."""


@dataclass(frozen=True)
class Style:
    """How a group's marks look, everywhere on a page."""

    colour: str
    dash: Sequence[int]


def colour_of(method: str) -> str:
    """The colour of a method: by its expression in its one spelling, and by nothing else.

    The names of its parts make the hue; values of their own, as in fedprox(mu=0.5), make it darker or lighter.
    """
    name = canonical(method)
    parts = re.sub(r"\(.*?\)(?=\+|$)", "", name)
    hue = KNOWN.get(parts) or OTHERS[_hash(parts) % len(OTHERS)]
    return hue if name == parts else tinted(hue, TINTS[_hash(name) % len(TINTS)])


def styles(tables: Sequence[Sequence[Row]]) -> dict[str, Style]:
    """A look for every label; upper bounds are grey."""
    groups = {row.group.label: row.group for rows in tables for row in rows}
    looks: dict[str, Style] = {}
    taken: set[tuple[str, tuple[int, ...]]] = set()
    for family in _families(list(groups.values())):
        for at, group in enumerate(family):
            colour = MUTED if group.bound else shade(colour_of(group.method), at, len(family))
            first = at + (1 if group.bound else 0)
            dashes = [tuple(DASHES[(first + k) % len(DASHES)]) for k in range(len(DASHES))]
            dash = next((d for d in dashes if (colour, d) not in taken), dashes[0])
            taken.add((colour, dash))
            looks[group.label] = Style(colour, dash)
    return looks


def shade(colour: str, at: int, of: int) -> str:
    """The colour itself where it is the only one, else one of its shades from dark to light."""
    return colour if of == 1 else tinted(colour, 0.4 * (2 * at / (of - 1) - 1))


def tinted(colour: str, share: float) -> str:
    """A colour moved towards black (below 0) or white (above)."""
    end = 255 if share > 0 else 0
    parts = [int(colour[k : k + 2], 16) for k in (1, 3, 5)]
    return "#" + "".join(f"{round(part + abs(share) * (end - part)):02X}" for part in parts)


def letters_on(colour: str) -> str:
    """White, or dark where the colour is light."""
    red, green, blue = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return ON_LIGHT if 0.299 * red + 0.587 * green + 0.114 * blue > 150 else "white"


def colour(labels: Sequence[str], looks: Mapping[str, Style], legend: alt.Legend | None) -> alt.Color:
    """The colour of a mark by its group's label."""
    shown = [looks[label].colour for label in labels]
    return alt.Color("label:N", scale=alt.Scale(domain=list(labels), range=shown), legend=legend)


def _families(groups: Sequence[Group]) -> list[list[Group]]:
    """Groups of one method together, in the order of their settings; what is met most often comes first."""
    by_method: dict[str, list[Group]] = {}
    for group in sorted(groups, key=lambda g: natural_key(g.label)):
        by_method.setdefault(canonical(group.method), []).append(group)
    return [by_method[name] for name in sorted(by_method, key=lambda name: (name not in KNOWN, name))]


def _hash(text: str) -> int:
    """The same on every machine and in every process, as Python's own is not."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

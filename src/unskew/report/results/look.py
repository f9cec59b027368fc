"""How a group of runs looks: the same colour and dash in every chart and table of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import altair as alt

from unskew.report.results.leaderboard import Row
from unskew.report.theme import MUTED, PALETTE, YELLOW

DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
LINES = tuple(colour for colour in PALETTE if colour != YELLOW)  # yellow vanishes on paper as a line


@dataclass(frozen=True)
class Style:
    """How a group's marks look, everywhere on a page."""

    colour: str
    dash: Sequence[int]


def styles(tables: Sequence[Sequence[Row]]) -> dict[str, Style]:
    """A look for every label: colours first, then dashes; upper bounds in grey."""
    labels = list(dict.fromkeys(row.group.label for rows in tables for row in rows if not row.group.bound))
    bounds = list(dict.fromkeys(row.group.label for rows in tables for row in rows if row.group.bound))
    looks = {
        label: Style(LINES[at % len(LINES)], DASHES[at // len(LINES) % len(DASHES)])
        for at, label in enumerate(labels)
    }
    return looks | {label: Style(MUTED, DASHES[(1 + at) % len(DASHES)]) for at, label in enumerate(bounds)}


def colour(labels: Sequence[str], looks: Mapping[str, Style]) -> alt.Color:
    """The colour of a mark by its group's label."""
    return alt.Color("label:N").scale(domain=list(labels), range=[looks[label].colour for label in labels])

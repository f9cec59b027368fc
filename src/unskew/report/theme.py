"""How every picture looks: one palette, one font, one set of sizes, for partitions and runs alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unskew.report.assembly import Picture

# Okabe and Ito's colours: told apart by every common kind of colour blindness, and in grey print
BLUE, ORANGE, GREEN, RED, SKY, PINK, YELLOW = PALETTE = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#D55E00",
    "#56B4E9",
    "#CC79A7",
    "#F0E442",
)
INK, MUTED, RULE, PAPER = "#1f2933", "#5f6b7a", "#dfe4ea", "#ffffff"
DARK_MODE = {INK: "#e6eaf0", MUTED: "#9aa7b5", RULE: "#323a45", PAPER: "#14181d"}
"""What these four are on a screen at night."""
ON_LIGHT = "#1f2934"  # ink that stays dark at night: on light cells, and under white letters

# light to dark in one hue: an empty cell stays paper white, so absence is seen as absence
HEAT = ("#d6e6f4", "#9cc6e3", "#5a9fcd", "#2a74ad", "#0b4a85", "#08264f")

FONT = "Inter, 'Helvetica Neue', Helvetica, Arial, 'Liberation Sans', sans-serif"
WIDTH = 760
"""Width of a full picture in pixels; everything else is a share of it."""


def config() -> dict[str, Any]:
    """The Vega-Lite configuration of every chart."""
    text = {"labelFont": FONT, "titleFont": FONT, "labelColor": MUTED, "titleColor": INK}
    return {
        "background": PAPER,
        "font": FONT,
        "padding": 12,
        "view": {"stroke": None},
        "range": {"category": list(PALETTE), "heatmap": list(HEAT), "ramp": list(HEAT)},
        "title": {
            "font": FONT,
            "color": INK,
            "fontSize": 15,
            "fontWeight": 600,
            "anchor": "start",
            "frame": "group",
            "offset": 12,
            "subtitleFont": FONT,
            "subtitleColor": MUTED,
            "subtitleFontSize": 12,
            "subtitlePadding": 5,
        },
        "axis": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "gridColor": RULE,
            "domainColor": RULE,
            "tickColor": RULE,
            "labelLimit": 150,
        },
        "legend": {
            **text,
            "labelFontSize": 11,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titleLimit": 300,
        },
        "header": {**text, "labelFontSize": 12, "labelColor": INK, "titleFontSize": 12},
        "text": {"font": FONT, "fontSize": 11, "color": INK},
        "bar": {"color": BLUE},
        "line": {"strokeWidth": 2},
        "concat": {"spacing": 36},
    }


CHECKED = False
"""Whether every finished chart is held against Vega-Lite's schema, with all its pieces. That takes longer than all the
rest, so the tests of reports and of the studio alone ask for it."""


@contextmanager
def trusted() -> Iterator[None]:
    """Within it Altair takes the pieces of charts as they are: ``themed`` checks the whole, where that is wanted."""
    from altair.utils.schemapi import debug_mode

    with debug_mode(False):
        yield


def inline(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Data of a chart. A tuple: Altair copies charts again and again as they are put together, and lists within them
    row by row."""
    import altair as alt

    return alt.InlineData(values=tuple(rows))


def themed(chart: Picture) -> dict[str, Any]:
    """A chart as a finished Vega-Lite specification in this theme."""
    specification: dict[str, Any] = chart.to_dict(validate=CHECKED)
    specification["config"] = config()
    return specification


def trust_charts() -> None:
    """From now on, and in every thread: for pages that draw anew while somebody drags a slider."""
    from altair.utils.schemapi import disable_debug_mode

    disable_debug_mode()

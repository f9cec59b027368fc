"""The figure for a paper: learning curves beside final accuracies, a row a problem, as wide as it is asked to be."""

from __future__ import annotations

import re
import textwrap

from unskew.report.assembly import Picture, below, in_columns
from unskew.report.results.comparison import Comparison
from unskew.report.results.curves import panel
from unskew.report.results.look import styles
from unskew.report.results.pictures import NAMES, final_intervals
from unskew.report.results.statistics import Spread
from unskew.report.theme import themed, trusted

ENDS: dict[Spread, str] = {"ci": "Final, with 95% intervals", "sd": "Final, mean ± sd"}
BESIDE = 640
"""The least width in pixels at which the two pictures stand beside one another."""
AXIS = 36  # what the curves' own axis takes


@trusted()
def figure(compared: Comparison, width: float | None = None) -> Picture:
    """One chart of everything, in the formats that paper knows: no legend to click, nothing to hover.

    ``width`` is that of the whole, in pixels. Labels take what they take, so it is drawn, measured and mended.
    """
    if width is None:
        return _drawn(compared, 400, 230, NAMES, beside=True)
    beside = width >= BESIDE
    longest = max(len(row.group.label) for _, rows in compared.tables for row in rows)
    names = min(NAMES, 12 + 7 * longest) if beside else 0
    # for curves, and for ends where they stand beside them
    room = width - 60 - (names + AXIS if beside else 0)
    chart: Picture = None
    for _ in range(3):
        curves = 0.63 * room if beside else room
        ends = room - curves if beside else room
        chart = _drawn(compared, round(curves), round(ends), names, beside=beside)
        missing = width - measured(chart)
        if abs(missing) < 1:
            break
        room += missing
    return chart


def measured(chart: Picture) -> float:
    """How wide a chart comes out, in pixels."""
    import vl_convert

    found = re.search(r'<svg[^>]*\bwidth="([\d.]+)', vl_convert.vegalite_to_svg(themed(chart)))
    assert found is not None
    return float(found[1])


def _drawn(compared: Comparison, curves: int, ends: int, names: int, *, beside: bool) -> Picture:
    looks = styles([rows for _, rows in compared.tables])
    several = len(compared.tables) > 1
    pictures = []
    for problem, rows in compared.tables:
        height = max(220, 34 * len(rows))
        metric = rows[0].metric
        title = f"Global test {metric.title} over rounds" + (f" · {problem.name}" if several else "")
        pictures.append(
            in_columns(
                panel(
                    rows,
                    looks,
                    textwrap.wrap(title, max(16, curves // 8)),
                    measure=metric,
                    width=curves,
                    height=height if beside else min(220, height),
                    goals=[to.target for to in rows[0].reached if to.asked],
                    legend="bottom",
                    room=curves + (names if beside else 0),
                ),
                final_intervals(
                    rows,
                    looks,
                    textwrap.wrap(ENDS[compared.spread], max(16, ends // 8)),
                    width=ends,
                    height=height if beside else 34 * len(rows),
                    names=names,
                ),
                columns=2 if beside else 1,
                spacing=40 if beside else 24,
            )
        )
    return below(*pictures, spacing=36, resolve={"scale": {"color": "shared", "strokeDash": "shared"}})

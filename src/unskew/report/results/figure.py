"""The figure for a paper: learning curves beside final accuracies, a row a problem."""

from __future__ import annotations

import altair as alt

from unskew.report.results.comparison import Comparison
from unskew.report.results.curves import Picture, panel
from unskew.report.results.look import styles
from unskew.report.results.pictures import final_intervals


def figure(compared: Comparison) -> Picture:
    """One chart of everything, in the formats that paper knows: no legend to click, nothing to hover."""
    looks = styles([rows for _, rows in compared.tables])
    several = len(compared.tables) > 1
    pictures = []
    for problem, rows in compared.tables:
        height = max(220, 34 * len(rows))
        name = f" · {problem.name}" if several else ""
        pictures.append(
            alt.hconcat(
                panel(
                    rows,
                    looks,
                    f"Global test accuracy over rounds{name}",
                    width=400,
                    height=height,
                    legend="bottom",
                ),
                final_intervals(rows, looks, "Final, with 95% intervals", width=230, height=height),
                spacing=40,
            )
        )
    return alt.vconcat(*pictures, spacing=36).resolve_scale(color="shared", strokeDash="shared")

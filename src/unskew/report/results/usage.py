"""What a method took of the federation: data used, clients asked a round, and how many it ever trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from unskew.report.assembly import Picture, beside, layered, x_at
from unskew.report.results import words
from unskew.report.results.curves import WIDTH
from unskew.report.results.leaderboard import Row
from unskew.report.results.look import Style, colour, letters_on
from unskew.report.theme import INK, inline

GAP = 44


def usage_bars(rows: Sequence[Row], looks: Mapping[str, Style], *, width: int = WIDTH) -> Picture | None:
    """Three panels of bars, means over seeds; the first with final accuracies as dots (Seol & Kim, figures 7 and 8)."""
    known = [row for row in rows if row.samples_used is not None]
    if not known:
        return None
    labels = [row.group.label for row in known]
    values: list[dict[str, Any]] = [
        {
            "label": row.group.label,
            "on": letters_on(looks[row.group.label].colour),
            "samples": row.samples_used,
            "asked": row.asked_a_round,
            "distinct": row.distinct_clients,
            "accuracy": row.accuracy,
            "samples_text": words.amount(row.samples_used or 0),
            "asked_text": f"{row.asked_a_round:.3g}",
            "distinct_text": f"{row.distinct_clients:,.0f}",
            "accuracy_text": f"{row.accuracy:.1%}",
        }
        for row in known
    ]
    base = alt.Chart(inline(values))
    room = (width - 190 - 2 * GAP) // 3
    height = max(44, 34 * len(known))

    def y(named: bool) -> alt.Y:
        names = alt.Axis(title=None, domain=False, ticks=False, labelLimit=180, labels=named)
        return alt.Y("label:N", scale=alt.Scale(domain=labels, padding=0.25), axis=names)

    def bars(name: str, title: str, named: bool = False) -> list[alt.Chart]:
        lengths = base.mark_bar().encode(
            y=y(named),
            x=alt.X(
                f"{name}:Q",
                axis=alt.Axis(title=title, tickCount=4, domain=False, labelExpr="format(datum.value, '~s')"),
            ),
            color=colour(labels, looks, legend=None),
            tooltip=[
                alt.Tooltip("label:N"),
                alt.Tooltip(f"{name}:Q", format=",.5~g"),
                alt.Tooltip("accuracy_text:N"),
            ],
        )
        short = alt.datum[name] < 0.25 * max(float(value[name]) for value in values)  # no room on the bar
        told = base.mark_text(align="left", dx=6, fontSize=11).encode(
            y=y(named),
            x=x_at(0),
            text=alt.Text(f"{name}_text:N"),
            color=alt.Color("on:N", scale=None, condition={"test": str(short), "value": INK}),
        )
        return [lengths, told]

    dots = base.mark_point(filled=True, size=80, color=INK, stroke="white", opacity=1).encode(
        y=y(True),
        x=alt.X(
            "accuracy:Q",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(title="final accuracy (dot)", orient="top", format="%", grid=False, tickCount=4),
        ),
    )
    size = {"width": room, "height": height}
    used = layered(
        layered(*bars("samples", "samples used in a run", named=True)),
        dots,
        resolve={"scale": {"x": "independent"}},
        **size,
    )
    return beside(
        used,
        layered(*bars("asked", "clients a round"), **size),
        layered(*bars("distinct", "different clients in a run"), **size),
        spacing=GAP,
    )


def usage_told(rows: Sequence[Row]) -> str:
    """The picture in words."""
    said = [
        f"{row.group.label} {words.amount(row.samples_used)} samples of {row.distinct_clients:,.0f} clients, "
        f"{row.asked_a_round:.3g} a round"
        for row in rows
        if row.samples_used is not None and not row.group.bound
    ]
    return "What a run used: " + "; ".join(said)

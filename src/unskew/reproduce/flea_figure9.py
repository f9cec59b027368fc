"""FLea's figure 9 of attacked runs: four panels, a line per run and model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from unskew.errors import InputError
from unskew.report.attack.page import context_series, exposure_series, reconstruction_series
from unskew.report.attack.pictures import (
    Picture,
    Series,
    context_chart,
    correlation_chart,
    exposure_chart,
    reconstruction_chart,
)
from unskew.report.results.look import colour_of


def figure9(records: Sequence[dict[str, Any]]) -> Picture:
    """(a) exposure, (b) correlation, (c) reconstruction error in training, (d) context detection."""
    exposed = [exposure_series(r) for r in records if (r.get("exposure") or {}).get("shares")]
    correlated = [
        Series(r["method"], told["rounds"], told["c"], colour=colour_of(r["method"]))
        for r in records
        for told in ((r.get("correlation") or {}).get("over_rounds") or {}).values()
    ]
    rebuilt = [
        s for r in records for s in reconstruction_series(r, named=f"{r['method']}: ", measure="train_mse")
    ]
    detected = [s for r in records for s in context_series(r, named=f"{r['method']}: ")]
    blind = next(
        (r["reconstruction"]["results"][0]["blind"]["mse"] for r in records if r.get("reconstruction")), None
    )
    panels = []  # what nobody measured is none
    if exposed:
        panels.append(exposure_chart(exposed, "(a) Feature exposure"))
    if correlated:
        panels.append(correlation_chart(correlated, "(b) Correlation"))
    if rebuilt:
        panels.append(reconstruction_chart(rebuilt, blind, "(c) Reconstruction error in training"))
    if detected:
        panels.append(context_chart(detected, "(d) Context detection"))
    if not panels:
        raise InputError("these runs share nothing with other clients: there is nothing to draw of figure 9")
    rows = [
        alt.hconcat(*panels[at : at + 2], spacing=40).resolve_scale(color="independent")
        for at in range(0, len(panels), 2)
    ]
    return alt.vconcat(*rows, spacing=30).resolve_scale(color="independent", strokeDash="independent")

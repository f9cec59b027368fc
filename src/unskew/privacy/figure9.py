"""FLea's figure 9 of attacked runs: four panels, a line a run and a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from unskew.privacy.page import context_series, reconstruction_series
from unskew.privacy.pictures import (
    Picture,
    Series,
    context_chart,
    correlation_chart,
    exposure_chart,
    reconstruction_chart,
)


def figure9(records: Sequence[dict[str, Any]]) -> Picture:
    """(a) exposure, (b) correlation, (c) reconstruction error in training, (d) context detection."""
    exposed = [
        Series(r["method"], r["exposure"]["rounds"], r["exposure"]["epsilon"])
        for r in records
        if (r.get("exposure") or {}).get("shares")
    ]
    correlated = [
        Series(r["method"], told["rounds"], told["c"])
        for r in records
        for told in ((r.get("correlation") or {}).get("over_rounds") or {}).values()
    ]
    rebuilt = [s for r in records for s in reconstruction_series(r, named=f"{r['method']}: ")]
    detected = [s for r in records for s in context_series(r, named=f"{r['method']}: ")]
    blind = next(
        (r["reconstruction"]["results"][0]["blind"]["mse"] for r in records if r.get("reconstruction")), None
    )
    panels = [
        exposure_chart(exposed, "(a) Feature exposure"),
        correlation_chart(correlated, "(b) Correlation"),
        reconstruction_chart(rebuilt, blind, "(c) Reconstruction error in training"),
        context_chart(detected, "(d) Context detection"),
    ]
    rows = [
        alt.hconcat(*pair, spacing=40).resolve_scale(color="independent") for pair in (panels[:2], panels[2:])
    ]
    return alt.vconcat(*rows, spacing=30).resolve_scale(color="independent", strokeDash="independent")

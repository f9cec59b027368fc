"""Draws an attack: PNGs beside its numbers, and one HTML page of them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from unskew.errors import InputError
from unskew.files import write_file
from unskew.privacy.findings import findings
from unskew.privacy.laboratory import ATTACKS, read
from unskew.privacy.verdict import SCALE, Verdict, verdict
from unskew.report.assembly import Picture
from unskew.report.attack.pictures import (
    Series,
    context_chart,
    correlation_chart,
    exposure_chart,
    reconstruction_chart,
)
from unskew.report.drawing import save_chart
from unskew.report.grids import GRIDS, Image, grids, label
from unskew.report.page import Block, Figure, Heading, Paragraph, TableBlock, save_page
from unskew.report.results.look import colour_of
from unskew.report.theme import themed


def draw(folder: Path) -> Path:
    """Draw what ``folder``, the attack's, holds; returns the page."""
    record = read(folder.parent)
    if record is None:
        raise InputError(f"{folder.parent} was not attacked yet; write `unskew attack {folder.parent}`")
    for name, chart in charts(record):
        save_chart(chart, folder / f"{name}.png", name)
    for name, png, _ in grids(folder.parent, record):
        write_file(folder / f"{name}.png", png)
    place = folder / "attack.html"
    said = verdict(record)
    seeds = sorted({record[name]["seed"] for name in ATTACKS if "seed" in record.get(name, {})})
    about = f"What {record['method']} gives away on {record['dataset']} · attackers' seed {', '.join(map(str, seeds))}"
    save_page(place, said.title, list(_blocks(folder.parent, record, said)), about)
    return place


def _blocks(run: Path, record: dict[str, Any], said: Verdict) -> Iterator[Block]:
    yield Paragraph(" ".join(said.sentences))
    declared = "; ".join(record["discloses"]) or "nothing"
    yield Paragraph(f"Beyond model updates a client discloses: {declared}.")
    yield Paragraph(SCALE, quiet=True)
    yield Heading("What each attack found")
    yield TableBlock(["attack", "what it found"], [list(pair) for pair in findings(record)])
    for name, chart in charts(record):
        yield Heading(name.capitalize())
        yield Figure(themed(chart), CAPTIONS[name], alt=name)
    for name, png, caption in grids(run, record):
        yield Heading(GRIDS[name])
        yield Image(png, caption, GRIDS[name])
    took = sum(record.get(name, {}).get("wall_s", 0.0) for name in ATTACKS)
    yield Paragraph(f"All attacks together took {took:,.0f} s.", quiet=True)


CAPTIONS = {
    "exposure": "The share of ordered pairs of clients of which one was given something of the other's data.",
    "correlation": "Distance correlation (FLea, eq. 8) of what is shared with the samples behind it.",
    "reconstruction": "Mean squared error on samples that the attacker has not seen, while its decoder learns; values "
    "from 0 to 1. The last is the number above.",
    "context": "How well a detector tells marked clients from others; bands are one standard deviation.",
}


def charts(record: dict[str, Any]) -> Iterator[tuple[str, Picture]]:
    """(name, chart) of every section that has one."""
    told = record.get("exposure") or {}
    if told.get("shares"):
        yield "exposure", exposure_chart([exposure_series(record)])
    over = (record.get("correlation") or {}).get("over_rounds") or {}
    if over:
        yield (
            "correlation",
            correlation_chart(
                [
                    Series(
                        f"{part}: {t['view']}" if "view" in t else part,
                        t["rounds"],
                        t["c"],
                        colour=colour_of(record["method"]),
                    )
                    for part, t in over.items()
                ]
            ),
        )
    curves = reconstruction_series(record)
    if curves:
        blind = record["reconstruction"]["results"][0]["blind"]["mse"]
        yield "reconstruction", reconstruction_chart(curves, blind)
    detected = context_series(record)
    if detected:
        yield "context", context_chart(detected)


def exposure_series(record: dict[str, Any]) -> Series:
    told, method = record["exposure"], record["method"]
    return Series(method, told["rounds"], told["epsilon"], colour=colour_of(method))


def reconstruction_series(record: dict[str, Any], *, named: str = "", measure: str = "mse") -> list[Series]:
    """The decoder's error over its training: on unseen samples (``mse``), or on its own (``train_mse``)."""
    return [
        Series(
            named + label(record, told),
            [p["epoch"] for p in told["curve"]],
            [p[measure] for p in told["curve"]],
            colour=colour_of(record["method"]),
        )
        for told in (record.get("reconstruction") or {}).get("results", [])
        if told["curve"]
    ]


def context_series(record: dict[str, Any], *, named: str = "") -> list[Series]:
    return [
        Series(
            named + label(record, told),
            [p["samples"] for p in told["points"]],
            [p["accuracy"] for p in told["points"]],
            [p["sd"] for p in told["points"]],
            colour_of(record["method"]),
        )
        for told in (record.get("context") or {}).get("results", [])
    ]

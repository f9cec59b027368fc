"""Draws an attack: PNGs beside its numbers, and one HTML page of them all."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unskew.errors import InputError
from unskew.privacy.findings import findings
from unskew.privacy.laboratory import ATTACKS, FOLDER, read, saved_pictures
from unskew.privacy.pictures import (
    Picture,
    Series,
    context_chart,
    correlation_chart,
    exposure_chart,
    grid,
    reconstruction_chart,
)
from unskew.privacy.quality import nearly
from unskew.privacy.verdict import SCALE, Verdict, verdict
from unskew.report.drawing import save_chart
from unskew.report.page import Block, Figure, Heading, Paragraph, Table, save_page
from unskew.report.results.look import colour_of
from unskew.report.theme import themed
from unskew.state import write_atomically


@dataclass(frozen=True)
class Image:
    """A PNG inside the page."""

    png: bytes
    caption: str
    alt: str

    def html(self, at: int) -> str:
        data = base64.b64encode(self.png).decode()
        return (
            f'<figure><img alt="{html.escape(self.alt)}" src="data:image/png;base64,{data}" style="max-width:100%">'
            f"<figcaption>{html.escape(self.caption)}</figcaption></figure>"
        )


def draw(folder: Path) -> Path:
    """Draw what ``folder``, the attack's, holds; returns the page."""
    record = read(folder.parent)
    if record is None:
        raise InputError(f"{folder.parent} was not attacked yet; write `unskew attack {folder.parent}`")
    for name, chart in charts(record):
        save_chart(chart, folder / f"{name}.png", name)
    for name, png, _ in grids(folder.parent, record):
        write_atomically(folder / f"{name}.png", png)
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
    yield Table(["attack", "what it found"], [list(pair) for pair in findings(record)])
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
GRIDS = {"reconstructions": "Originals and reconstructions", "inversions": "Out of model updates"}


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


def label(record: dict[str, Any], told: dict[str, Any]) -> str:
    """A model's name in a legend: what is seen of it, when, and at which c."""
    c = next(
        (
            f", c = {m['mean']:.2f}"
            for m in (record.get("correlation") or {}).get("models", [])
            if m["part"] == told["part"] and m["round"] == told["round"]
        ),
        "",
    )
    when = f", round {told['round']}" if told["view"].startswith("features") else ""
    return f"{told['view']}{when}{c}"


def grids(run: Path, record: dict[str, Any]) -> Iterator[tuple[str, bytes, str]]:
    """(name, PNG, caption) of every picture of samples."""
    place = run / FOLDER / "pictures.npz"
    if not place.is_file():
        return
    held = saved_pictures(place)
    results = (record.get("reconstruction") or {}).get("results", [])
    rows = [
        (told, held[key])
        for told in results
        if (key := f"reconstruction {told['view']} round {told['round']}") in held and told["curve"]
    ]
    if rows:
        originals = held["originals"]
        shown = "; ".join(
            f"{label(record, told)}: PSNR {_mean_psnr(found, originals)} of these, {nearly(told['psnr'])} of all"
            for told, found in rows
        )
        yield (
            "reconstructions",
            grid([("original", originals), *((label(record, told), found) for told, found in rows)]),
            f"{len(originals)} of the {rows[0][0]['test_samples']:,} test samples that no attacker has seen. {shown}.",
        )
    if "inversion" in record and "inversion originals" in held:
        told = record["inversion"]
        alone = told["one_step_one_sample"]["clients"]
        split = np.split(held["inversion originals"], [alone]), np.split(held["inversion found"], [alone])
        names = (("one step, original", "one step, found"), ("a visit, original", "a visit, found"))
        pairs = [(names[k][j], split[j][k]) for k in (0, 1) for j in (0, 1)]
        one, whole = (_each_psnr(split[1][k], split[0][k]) for k in (0, 1))
        yield (
            "inversions",
            grid(pairs),
            f"Samples that explain the update, after {told['steps']:,} steps of {told['rule']}. PSNR from left to "
            f"right: {one} for one step, on average {nearly(told['one_step_one_sample']['psnr'])}; {whole} for a "
            f"visit, on average {nearly(told['whole_visit']['psnr'])}. What is found in a visit stands under the "
            "sample that it is most like.",
        )


def _each_psnr(found: np.ndarray[Any, Any], originals: np.ndarray[Any, Any]) -> str:
    """The PSNR of every picture in dB; what a byte a pixel cannot tell from the original is exact."""
    return ", ".join("exact" if value >= BYTES_EXACT else f"{value:.1f}" for value in _psnr(found, originals))


def _mean_psnr(found: np.ndarray[Any, Any], originals: np.ndarray[Any, Any]) -> str:
    value = float(np.mean(_psnr(found, originals)))
    return "exact" if value >= BYTES_EXACT else f"{value:.1f} dB"


BYTES_EXACT = 55.0
"""The PSNR in dB above which rounding to bytes is most of the error."""


def _psnr(found: np.ndarray[Any, Any], originals: np.ndarray[Any, Any]) -> list[float]:
    apart = (found.astype(np.float64) - originals.astype(np.float64)) / 255
    errors = np.maximum(1e-10, np.square(apart).reshape(len(apart), -1).mean(1))
    return [float(value) for value in -10 * np.log10(errors)]

"""Pictures of samples that an attack got at: originals above what was found of them."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from unskew.privacy.laboratory import FOLDER, saved_pictures
from unskew.privacy.quality import nearly
from unskew.report.rendering import piece
from unskew.report.theme import INK

GRIDS = {"reconstructions": "Originals and reconstructions", "inversions": "Out of model updates"}


@dataclass(frozen=True)
class Image:
    """A PNG inside the page."""

    png: bytes
    caption: str
    alt: str

    def html(self, at: int) -> Markup:
        return piece("blocks.html", "image")(base64.b64encode(self.png).decode(), self.caption, self.alt)


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
    """The PSNR of every picture in dB; what a byte per pixel cannot tell from the original is exact."""
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


def grid(rows: Sequence[tuple[str, np.ndarray[Any, Any]]], side: int = 72) -> bytes:
    """Rows of samples with a name above each, as a PNG; bytes from 0 to 255, [n, channels, height, width]."""
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(17)
    columns = max(len(images) for _, images in rows)
    side = min(side, max(40, 760 // columns))
    gap, words = 4, 30
    wide = max(columns * (side + gap), *(int(font.getlength(name)) for name, _ in rows))
    sheet = Image.new("RGB", (wide, len(rows) * (words + side + gap)), "white")
    pen = ImageDraw.Draw(sheet)
    for r, (name, images) in enumerate(rows):
        top = r * (words + side + gap)
        pen.text((0, top + words // 2), name, fill=INK, font=font, anchor="lm")
        for c, image in enumerate(images):
            shown = Image.fromarray(_rgb(image)).resize((side, side), Image.Resampling.NEAREST)
            sheet.paste(shown, (c * (side + gap), top + words))
    buffer = io.BytesIO()
    sheet.save(buffer, "PNG")
    return buffer.getvalue()


def _rgb(sample: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A sample as a picture: colours where it has three channels, else grey from its first; a series is a band."""
    planes = sample if sample.ndim == 3 else sample.reshape(1, -1, sample.shape[-1])
    if len(planes) == 3:
        return np.ascontiguousarray(planes.transpose(1, 2, 0))
    return np.repeat(planes[0][:, :, None], 3, 2)

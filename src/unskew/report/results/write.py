"""From runs to a file in the format that is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unskew.errors import InputError, unknown
from unskew.files import write_file
from unskew.garbage import garbage_put_off
from unskew.notices import warn
from unskew.report.page import output
from unskew.report.results.comparison import Comparison, compare
from unskew.report.results.damage import damage_told
from unskew.report.results.gather import list_names

if TYPE_CHECKING:
    from unskew.report.results.gather import Runs
    from unskew.report.results.statistics import Spread

SUFFIXES = {
    "html": (".html", ".htm"),
    "png": (".png",),
    "svg": (".svg",),
    "pdf": (".pdf",),
    "csv": (".csv",),
    "latex": (".tex",),
}
"""Every format with the endings its file may have, the usual one first."""


def write_report(
    runs: Runs,
    path: str | Path | None = None,
    *,
    baseline: str | None = None,
    format: str | None = None,
    title: str | None = None,
    target: float | Sequence[float] = (),
    spread: Spread = "ci",
    labels: Mapping[str, str] | None = None,
    metrics: str | Sequence[str] = (),
    width: float | str | None = None,
) -> Path:
    """Write the report of runs, run folders, or folders that hold run folders; returns the file.

    The format is that of ``format`` or of the path's ending: html (the page), png, svg or pdf (the figure),
    csv or latex (the leaderboard). ``baseline`` names the method that others are compared with: by default
    fedavg, else the first that is sound. Without a path the file is report.html (.png, ...) in the folder if one
    is named, else in the current one.

    ``target`` names accuracies, such as 0.8, whose cost is told: rounds, bytes, seconds on the air, sample-steps.
    ``spread`` is what ± means: "ci", half the 95% interval of the mean, or "sd", the standard deviation.
    ``labels`` says what methods are called: ``{"mine.parts:Softened": "ours"}``. ``metrics`` names what is told; the
    report goes by the first, which its runs name unless this does. ``width`` is that of a figure,
    in pixels or with a unit, such as "84mm" or "3.3in".
    """
    place, kind = destination(runs, path, format)
    wide = pixels(width, kind) if width is not None else None
    compared = compare(runs, baseline, target=target, spread=spread, labels=labels, metrics=metrics)
    save(compared, place, kind, title, wide)
    return place


def destination(runs: Runs, path: str | Path | None, format: str | None) -> tuple[Path, str]:
    """Where a report goes and in which format, refused before any work if that cannot be."""
    if format is not None and format not in SUFFIXES:
        raise unknown("format", format, SUFFIXES)
    if path is None:
        kind = format or "html"
        return output(_folder(runs) / f"report{SUFFIXES[kind][0]}", "the report"), kind
    suffix = Path(path).suffix.lower()
    kind = format or next((k for k, endings in SUFFIXES.items() if suffix in endings), "")
    if suffix not in SUFFIXES.get(kind, ()):
        ending = f"ends in {suffix!r}" if suffix else "has no ending"
        known = ", ".join(endings[0] for endings in SUFFIXES.values())
        wanted = f"write {SUFFIXES[kind][0]} for {kind}" if kind else f"write one of {known}"
        raise InputError(f"the report {Path(path).name!r} {ending}; {wanted}")
    return output(path, "the report"), kind


def save(
    compared: Comparison, place: Path, kind: str, title: str | None = None, width: float | None = None
) -> None:
    """Write one format, whole or not at all; ``width`` is a figure's, in pixels."""
    if kind == "html":
        with garbage_put_off():
            from unskew.report.results.page import save_report

        save_report(compared, place, title)
    elif kind in ("png", "svg", "pdf"):
        with garbage_put_off():
            from unskew.report.drawing import save_chart
            from unskew.report.results.figure import figure

        save_chart(figure(compared, width), place, title or compared.headline.title)
    else:
        from unskew.report.results.tables import csv_text, latex_text

        if told := damage_told(compared.records):  # a table has no headline to say it in
            warn(told, stacklevel=2)
        text = csv_text(compared) if kind == "csv" else latex_text(compared)
        write_file(place, text)


UNITS = {"px": 1.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96 / 72}
NARROWEST_FIGURE, WIDEST_FIGURE = 260, 4000


def pixels(width: float | str, kind: str) -> float:
    """A figure's width in pixels of 1/96 inch. A PNG has two dots for each, so plain pixels are halved for it."""
    if kind not in ("png", "svg", "pdf"):
        raise InputError(f"width is that of a figure (png, svg, pdf), and this is {kind}; leave it out")
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-z]*)\s*", str(width).lower())
    if found is None or (found[2] and found[2] not in UNITS):
        raise InputError(
            f"width is a number of pixels or has a unit ({', '.join(UNITS)}), such as 84mm, not {width}"
        )
    dots = 2 if kind == "png" and found[2] in ("", "px") else 1
    wide = float(found[1]) * UNITS[found[2] or "px"] / dots
    if not NARROWEST_FIGURE <= wide <= WIDEST_FIGURE:
        least, most = (f"{end / 96:.3g}in ({end * dots} pixels)" for end in (NARROWEST_FIGURE, WIDEST_FIGURE))
        raise InputError(f"a figure can be {least} to {most} wide, not {width}")
    return wide


def _folder(runs: Runs) -> Path:
    """The one folder that was named, if it was one."""
    named = list_names(runs)
    if len(named) == 1:
        one = named[0] if isinstance(named[0], (str, Path)) else named[0].path
        if one is not None and Path(one).is_dir():
            return Path(one)
    return Path()

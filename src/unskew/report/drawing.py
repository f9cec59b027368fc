"""A chart to a file, in the format that the file's name ends in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from unskew.errors import InputError
from unskew.files import write_file
from unskew.report.page import Figure, output, save_page
from unskew.report.theme import themed

if TYPE_CHECKING:
    from unskew.report.assembly import Picture

FORMATS = (".html", ".png", ".svg", ".pdf")


def picture_target(path: str | Path) -> Path:
    """A place for a picture, checked before the work starts: a known ending and a folder that exists."""
    place = Path(path)
    if place.suffix.lower() not in FORMATS:
        ending = f"ends in {place.suffix!r}" if place.suffix else "has no ending"
        raise InputError(
            f"the picture {place.name!r} {ending}; write {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    return output(place, "the picture")


def save_chart(chart: Picture, path: str | Path, title: str) -> Path:
    """Write a chart as HTML, PNG, SVG or PDF, whole or not at all."""
    place = picture_target(path)
    specification = themed(chart)
    if place.suffix.lower() == ".html":
        save_page(place, title, [Figure(specification)])
        return place
    import vl_convert

    match place.suffix.lower():
        case ".png":
            drawn = vl_convert.vegalite_to_png(specification, scale=2)
        case ".svg":
            drawn = vl_convert.vegalite_to_svg(specification).encode()
        case _:
            drawn = vl_convert.svg_to_pdf(in_points(vl_convert.vegalite_to_svg(specification)))
    write_file(place, drawn)
    return place


def in_points(svg: str) -> str:
    """The same drawing where a pixel is 1/96 inch: what makes a PDF of it takes every number for a point of 1/72."""
    return re.sub(
        r'(<svg[^>]*?) width="([\d.]+)" height="([\d.]+)"',
        lambda found: f'{found[1]} width="{float(found[2]) * 0.75:g}" height="{float(found[3]) * 0.75:g}"',
        svg,
        count=1,
    )

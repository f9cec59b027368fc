"""A round of Seol & Kim by hand: four clients with three classes, in numbers and as the picture of its page.

What each client repeats (algorithm 1), whom the server takes with how much of which class (2), and the batch size and
rate that follow (3): the example that tests/parts/test_seol_kim.py works.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unskew.arrays import Array
from unskew.files import write_file
from unskew.parts.prepare.repeats import additions
from unskew.parts.select.kld import balanced, uneven
from unskew.reproduce.making import Row, Wanted

COUNTS = np.array([[8, 2, 2], [0, 6, 3], [1, 0, 7], [0, 0, 6]])
THRESHOLD, BETA, ETA_MAX = 0.01, 3, 0.1
INK, GREY, RED = "#24292f", "#8b949e", "#c0453b"
FILL = ("#dbe8f5", "#d8eede", "#efe3f3")
EDGE = ("#2f6fb2", "#3f8f5f", "#8a5aa0")
UNIT, BAR, FLOOR = 15, 16, 214
FONT = "Helvetica, Arial, sans-serif"
TITLE = "A round of Seol & Kim's system"
TOLD = (
    "Four clients repeat samples of their rare classes; the server takes the largest, then whoever holds the scarcest "
    "class, with no class above a cap m; batch size and learning rate follow the amount taken."
)


def text(
    x: float, y: float, said: str, size: int = 12, fill: str = INK, anchor: str = "middle", bold: bool = False
) -> str:
    weight = "bold" if bold else "normal"
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{said}</text>'
    )


def bar(x: float, top: float, height: float, kind: int, dashed: bool = False) -> str:
    dash = ' stroke-dasharray="3 2"' if dashed else ""
    fill = "#fae6cf" if dashed else FILL[kind]
    edge = "#d9822b" if dashed else EDGE[kind]
    return (
        f'<rect x="{x:g}" y="{top:g}" width="{BAR}" height="{height:g}" fill="{fill}" stroke="{edge}" '
        f'stroke-width="1.3"{dash}/>'
    )


def arrow(x: float, y: float, to: float) -> str:
    return (
        f'<line x1="{x:g}" y1="{y:g}" x2="{to - 8:g}" y2="{y:g}" stroke="{INK}" stroke-width="1.6"/>'
        f'<polygon points="{to:g},{y:g} {to - 8:g},{y + 3.6:g} {to - 8:g},{y - 3.6:g}" fill="{INK}"/>'
    )


def clients(added: Array) -> list[str]:
    """What each client holds, and what it repeats."""
    drawn = [
        text(150, 34, "1  oversample", 13, bold=True),
        text(150, 52, "each class held, up to the client's mean", 11, GREY),
    ]
    for k, (held, more) in enumerate(zip(COUNTS, added, strict=True)):
        left = 18 + 68 * k
        for c in range(3):
            x = left + c * (BAR + 2)
            if held[c]:
                drawn.append(bar(x, FLOOR - UNIT * held[c], UNIT * held[c], c))
            if more[c]:
                drawn.append(bar(x, FLOOR - UNIT * (held[c] + more[c]), UNIT * more[c], c, dashed=True))
        mean = FLOOR - UNIT * held.sum() / 3
        drawn.append(
            f'<line x1="{left - 3}" y1="{mean:g}" x2="{left + 55}" y2="{mean:g}" stroke="{RED}" stroke-width="1" '
            'stroke-dasharray="4 3"/>'
        )
        drawn.append(text(left + 26, FLOOR + 18, f"client {'ABCD'[k]}", 12))
    drawn.append(text(150, FLOOR + 42, "dashed: repeated samples · red: the mean class", 11, GREY))
    return drawn


def cohort(chosen: Array, amounts: Array) -> list[str]:
    """The data gathered so far, after each client that is taken."""
    drawn = [
        text(418, 34, "2  kld", 13, bold=True),
        text(418, 52, "taken until the sum is nearly even", 11, GREY),
    ]
    cap = int(amounts[0].max())
    top = FLOOR - UNIT * cap
    for step in range(len(chosen)):
        left = 348 + 88 * step
        volume = np.zeros(3, int)
        for taken in amounts[: step + 1]:
            for c in range(3):
                if taken[c]:
                    drawn.append(
                        bar(left + c * (BAR + 2), FLOOR - UNIT * (volume[c] + taken[c]), UNIT * taken[c], c)
                    )
            volume = volume + taken
        who = " + ".join("ABCD"[k] for k in chosen[: step + 1])
        drawn.append(text(left + 26, FLOOR + 18, who, 12))
        drawn.append(text(left + 26, FLOOR + 34, f"KLD {uneven(volume):.3f}", 11, GREY))
    drawn.append(
        f'<line x1="340" y1="{top}" x2="500" y2="{top}" stroke="{RED}" stroke-width="1.2" stroke-dasharray="6 4"/>'
    )
    drawn.append(text(506, top + 4, "m", 13, RED, "start", bold=True))
    return drawn


def settings(chosen: Array, amounts: Array) -> list[str]:
    """What each client that is taken trains with."""
    drawn = [text(650, 34, "3  dynamic", 13, bold=True), text(650, 52, "by what each trains on", 11, GREY)]
    for row, (k, taken) in enumerate(zip(chosen, amounts, strict=True)):
        total, top = int(taken.sum()), 84 + 70 * row
        batch = max(1, total // BETA)
        lines = (
            f"client {'ABCD'[k]}: {total} samples",
            f"{total}/{BETA}: batches of {batch}",
            f"rate {ETA_MAX:g} arctan {batch} = {ETA_MAX * np.arctan(batch):.3f}",
        )
        drawn.append(
            f'<rect x="556" y="{top}" width="188" height="60" rx="5" fill="#f6f8fa" stroke="{GREY}"/>'
        )
        drawn += [text(650, top + 18 + 17 * at, line, 12) for at, line in enumerate(lines)]
    drawn.append(text(650, FLOOR + 42, "an update weighs the samples used", 11, GREY))
    return drawn


def _played() -> tuple[Array, Array, Array]:
    """What clients add, who is taken in which order, and how much of each class."""
    added = additions(COUNTS, 1.0)
    lifted = COUNTS + added
    ordered = np.argsort(-lifted.sum(1), kind="stable")
    chosen, amounts, _ = balanced(lifted, ordered, most=10, threshold=THRESHOLD, classes=np.arange(3))
    return added, chosen, amounts


def make(wanted: Wanted) -> list[Row]:
    """A row a client."""
    added, chosen, amounts = _played()
    taken = dict(zip(chosen.tolist(), amounts, strict=True))
    rows = []
    for k, (held, more) in enumerate(zip(COUNTS, added, strict=True)):
        row = {"client": "ABCD"[k], "holds": str(held.tolist()), "repeats": str(more.tolist())}
        batch = max(1, int(taken[k].sum()) // BETA) if k in taken else None
        row["is taken with"] = str(taken[k].tolist()) if k in taken else "–"
        row["batch"] = "–" if batch is None else str(batch)
        row["rate"] = "–" if batch is None else f"{ETA_MAX * np.arctan(batch):.3f}"
        rows.append(row)
    return rows


def draw(rows: Sequence[Row], runs: Path, picture: Path) -> Path:
    """As SVG."""
    added, chosen, amounts = _played()
    marks = [
        *clients(added),
        f'<line x1="12" y1="{FLOOR}" x2="284" y2="{FLOOR}" stroke="{INK}" stroke-width="1.3"/>',
        arrow(294, 140, 330),
        *cohort(chosen, amounts),
        f'<line x1="340" y1="{FLOOR}" x2="500" y2="{FLOOR}" stroke="{INK}" stroke-width="1.3"/>',
        arrow(516, 140, 548),
        *settings(chosen, amounts),
    ]
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 270" width="760" height="270" role="img" '
        f'aria-labelledby="t d" font-family="{FONT}">',
        f'  <title id="t">{TITLE.replace("&", "&amp;")}</title>',
        f'  <desc id="d">{TOLD}</desc>',
        '  <rect width="760" height="270" rx="8" fill="#ffffff"/>',
        *(f"  {mark}" for mark in marks),
        "</svg>",
        "",
    ]
    write_file(picture, "\n".join(drawn))
    return picture

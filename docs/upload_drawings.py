"""The pictures of encoded uploads, computed by the parts themselves: ``python docs/upload_drawings.py`` writes them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import torch
from drawings import BLUE, GREY, INK, ORANGE, PALE, Drawing

from unskew.parts.upload import Quantize, TopK
from unskew.seeds import generator

FIRST = (0.9, -0.35, 0.2, -1.0, 0.45, 0.1, -0.5, 0.3)
SECOND = (0.3, -0.4, 0.35, 0.2, 0.4, 0.1, -0.1, 0.4)


def bars(d: Drawing, left: float, middle: float, values: Sequence[float], fill: str, edge: str) -> None:
    """Numbers as bars up and down from a line."""
    for i, value in enumerate(values):
        tall = max(0.8, 38 * abs(value))
        d.box(left + 20 * i, middle - tall if value > 0 else middle, 13, tall, fill, edge)
    d.line(left - 6, middle, left + 20 * len(values), middle, GREY, 1)


def topk() -> None:
    """Two visits of a client: what it would send, what it sends, what it remembers."""
    d = Drawing(
        "Top-k with feedback",
        "A client sends the two largest of eight numbers with their places; the rest it adds to its next change.",
        height=300,
    )
    part = TopK(0.25)
    memory = {"unsent": {"w": torch.zeros(8, dtype=torch.float64)}}
    for x, words in ((120, "change and memory"), (365, "sent: numbers and places"), (625, "remembered")):
        d.text(x + 15, 26, words, size=13)
    for row, change in enumerate((FIRST, SECOND)):
        y = 95 + 130 * row
        given = torch.tensor(change, dtype=torch.float64)
        whole = given + memory["unsent"]["w"]
        message, memory = part.encode({"w": given}, memory, generator(0, "drawing"))
        sent = part.decode(message, {"w": (8,)})["w"]
        d.text(14, y - 50, f"visit {row + 1}", INK, 12, "start", bold=True)
        bars(d, 60, y, whole.tolist(), PALE, BLUE)
        d.arrow(232, y, 278, y, GREY, 1.4)
        bars(d, 296, y, sent.tolist(), ORANGE, ORANGE)
        d.arrow(468, y, 514, y, GREY, 1.4)
        bars(d, 556, y, memory["unsent"]["w"].tolist(), "#ffffff", GREY)
    d.arrow(636, 138, 142, 172, GREY, 1.2, "4 3")
    d.text(
        400, 285, "2 of 8 numbers: 2 x 4 bytes and 2 places of 4 bytes, where the model takes 32", GREY, 11
    )
    d.save("topk")


def quantize() -> None:
    """A tensor's numbers on a grid of seven levels, rounded up or down at random."""
    d = Drawing(
        "Rounded at random",
        "Numbers between the levels of three bits go to the one above or below, so that the mean is right.",
        height=280,
    )
    part = Quantize(3)
    message, _ = part.encode({"w": torch.tensor(FIRST, dtype=torch.float64)}, {}, generator(3, "drawing"))
    found = part.decode(message, {"w": (8,)})["w"].tolist()

    def height(value: float) -> float:
        return 140 - 95 * value

    d.text(380, 24, "3 bits: seven levels from -M to M, M the largest magnitude", size=13)
    for level in range(-part.levels, part.levels + 1):
        y = height(level / part.levels)
        d.line(120, y, 640, y, GREY, 0.8, "3 4")
        d.text(106, y + 4, f"{level:+d}" if level else "0", GREY, 11, "end")
    for i, (exact, rounded) in enumerate(zip(FIRST, found, strict=True)):
        x = 160 + 62 * i
        if abs(exact - rounded) > 0.02:
            d.arrow(x, height(exact), x, height(rounded), ORANGE, 1.6)
        d.parts.append(f'  <circle cx="{x}" cy="{height(exact):.1f}" r="4.5" fill="{PALE}" stroke="{BLUE}"/>')
        d.parts.append(f'  <circle cx="{x}" cy="{height(rounded):.1f}" r="3.5" fill="{ORANGE}"/>')
    d.text(380, 268, "8 numbers of 3 bits are 3 bytes, and 4 for M, where the model takes 32", GREY, 11)
    d.save("quantize")


DRAWN: dict[str, Callable[[], None]] = {f.__name__: f for f in (topk, quantize)}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or DRAWN:
        DRAWN[wanted]()

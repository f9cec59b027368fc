"""The layers and the way of one round through them: ``python docs/layers.py`` writes ``docs/img/layers.svg``.

Which layers there are, and in which order, is read from the contracts that ``make check`` holds the imports to.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from drawings import BLUE, GREY, INK, ORANGE, PALE, Drawing

ROOT = Path(__file__).resolve().parents[1]

ABOUT = {
    "cli": "commands, one file each",
    "report": "pages, charts, tables, the diagnosis",
    "privacy": "attacks on runs",
    "runs": "settings, set-up, the loop over rounds, run folders, sweeps",
    "engines": "how the clients' side is run: loop, cpu, gpu",
    "parts": "what methods are made of: one folder a slot, one file a part",
    "core": "the round, the slots, the client function, the seam, the ledger",
    "models": "networks; altered copies of samples",
    "data": "data sets, partitions, tables, images",
    "metrics": "how skewed; how linked",
}

STEPS = (
    ("runs", "1", "a round begins"),
    ("core", "2", "the round: State in"),
    ("parts", "3", "the server's half: whom, how"),
    ("engines", "4", "the seam: visit, query, evaluate, transfer"),
    ("core", "5", "the client function"),
    ("parts", "6", "the client's half: loss, report"),
    ("core", "7", "updates become a model; bytes counted"),
    ("runs", "8", "State out: log, checkpoint"),
)
"""The way of one round: layer, number, what happens there."""


def layers() -> list[list[str]]:
    """The contract's layers, the highest first, without the smallest ones below."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    named = next(c["layers"] for c in contracts if c["type"] == "layers")
    found = [[name.strip() for name in layer.split("|")] for layer in named]
    return [layer for layer in found if layer != ["__main__"]]


def draw() -> None:
    rows = layers()
    known = [row for row in rows if row[0] in ABOUT or "bench" in row]
    below = [name for row in rows if row not in known for name in row]
    high, top, left, wide = 36, 34, 14, 430
    height = top + (len(known) + 1) * (high + 6) + 26
    picture = Drawing(
        "The layers of unskew, and the way of one round through them",
        "Layers from the command line at the top to the smallest helpers at the bottom; imports only point down. "
        "A round goes from runs to core, to the parts' server half, through the engine to the client function and the "
        "parts' client half, and back.",
        height,
        900,
    )
    picture.text(left, 20, "imports only point down", GREY, 12, "start")
    picture.text(left + wide + 24, 20, "the way of one round", GREY, 12, "start")
    at = {}
    for number, row in enumerate([*known, below]):
        y = top + number * (high + 6)
        at[row[0]] = y + high / 2
        hot = row[0] in {layer for layer, _, _ in STEPS}
        picture.box(left, y, wide, high, PALE if hot else "#f6f8fa", BLUE if hot else GREY)
        said = (
            "measured and tried: exhibits, benchmarks, the battery"
            if "bench" in row
            else ABOUT.get(row[0], "")
        )
        if row is below:
            picture.text(left + 10, y + 15, " · ".join(below[:7]).replace("_", " "), INK, 11, "start")
            picture.text(left + 10, y + 29, " · ".join(below[7:]).replace("_", " "), INK, 11, "start")
        else:
            picture.text(left + 10, y + 15, " · ".join(row), INK, 13, "start", bold=True)
            picture.text(left + 10, y + 29, said, INK, 11, "start")
    x = left + wide + 20
    step = 52
    for number, (layer, mark, _) in enumerate(STEPS):
        here = x + number * step
        y = at[layer]
        if number:
            before = at[STEPS[number - 1][0]]
            picture.line(here - step + 9, before, here - 9, y, ORANGE if number in (3, 4) else INK, 1.8)
        colour = ORANGE if layer == "engines" else BLUE
        picture.parts.append(f'  <circle cx="{here:g}" cy="{y:g}" r="10" fill="{colour}"/>')
        picture.text(here, y + 4, mark, "#ffffff", 12, bold=True)
    ends = at["runs"] - 34, at["core"] + 22
    for border in (x + 2.5 * step, x + 5.5 * step):
        picture.line(border, ends[0], border, ends[1], GREY, 1, "4 4")
    for middle, side in ((1, "server's side"), (4, "clients' side"), (6.5, "server's side")):
        picture.text(x + middle * step, ends[0] - 4, side, GREY, 11)
    lowest = at["core"] + 52
    for number, (_, mark, words) in enumerate(STEPS):
        column, line = divmod(number, 4)
        place = x - 6 + column * 222, lowest + line * 20
        picture.text(place[0], place[1], mark, BLUE, 12, "start", bold=True)
        picture.text(place[0] + 14, place[1], words, INK, 11, "start")
    picture.save("layers")


if __name__ == "__main__":
    draw()

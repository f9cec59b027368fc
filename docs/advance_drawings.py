"""The pictures of the server's steps, computed by the parts themselves: ``python docs/advance_drawings.py``."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence

import torch
from drawings import BLUE, GREY, INK, ORANGE, Drawing

from unskew.core.slots import Advance
from unskew.parts.advance import FedAdagrad, FedAdam, FedAvgM, FedYogi, ServerSGD

ROUNDS = 12
SWINGING = [1.0, -0.6] * (ROUNDS // 2)
FREQUENT = [0.5] * ROUNDS
RARE = [2.0] + [0.0] * 5 + [0.05] * 6


def one(value: float) -> dict[str, torch.Tensor]:
    return {"w": torch.tensor([value], dtype=torch.float64)}


class OneWeight:
    """Stands in for a net: a model of one weight, at 0."""

    initial, trainable = one(0.0), ("w",)


def walk(part: Advance, changes: Sequence[float]) -> list[float]:
    """Where a weight is after each round in which clients changed it by so much."""
    w, memory, found = one(0.0), part.init_server(OneWeight()), [0.0]  # type: ignore[arg-type]
    for change in changes:
        w, memory = part.step(w, one(change), memory)
        found.append(float(w["w"]))
    return found


def draw(part: Advance, beside: Advance, changes: Sequence[float], told: str, about: str) -> None:
    """The changes of the rounds as bars, and where both parts take a weight by them."""
    d = Drawing(f"Steps of {part.name} and {beside.name}", about, height=250)
    d.text(190, 26, "what the clients' updates add up to", size=13)
    scale = 70 / max(map(abs, changes))
    for i, change in enumerate(changes):
        x, tall = 50 + 24 * i, max(1.0, scale * abs(change))
        d.box(x, 130 - tall if change > 0 else 130, 14, tall, "#dbe8f5", BLUE)
    d.line(40, 130, 344, 130, GREY, 1)
    d.text(190, 234, told, GREY, 11)
    d.text(565, 26, "where the weight goes", size=13)
    d.line(400, 210, 730, 210, GREY, 1)
    d.line(400, 210, 400, 44, GREY, 1)
    d.text(565, 234, "rounds", GREY, 11)
    ways = {which.name: walk(which, changes) for which in (beside, part)}
    plain = isinstance(beside, ServerSGD)
    farthest = max(max(way) for way in ways.values())
    for row, (name, way) in enumerate(ways.items()):
        colour, high = (GREY, ORANGE)[row], max(way) if plain else farthest
        points = [(400 + 26 * i, 205 - 150 * w / high) for i, w in enumerate(way)]
        for (x1, y1), (x2, y2) in itertools.pairwise(points):
            d.line(x1, y1, x2, y2, colour, 2.4)
        d.text(
            726,
            176 + 18 * row,
            "a plain step" if name == "server_sgd" else name,
            colour,
            12,
            "end",
            bold=True,
        )
    if plain:
        d.text(726, 156, "each to its own scale", INK, 10, "end")
    d.save(part.name)


def main(wanted: Sequence[str]) -> None:
    shorter = {"beta1": 0.5, "beta2": 0.7}  # shows in few rounds what the paper's values do in many
    rare = "one large change, then small ones (beta1 0.5, beta2 0.7)"
    drawn = {
        "fedavgm": (FedAvgM(), ServerSGD(), SWINGING, "cohorts that pull back and forth, and forward on the whole",
                    "Changes that alternate: the plain step swings, momentum goes on evenly."),
        "fedadagrad": (FedAdagrad(), ServerSGD(), FREQUENT, "the same change in every round",
                       "Equal changes: the plain step goes on evenly, Adagrad's steps become shorter."),
        "fedadam": (FedAdam(**shorter), ServerSGD(), RARE, rare,
                    "After one large change come small ones: the plain step hardly moves by them, Adam's does."),
        "fedyogi": (FedYogi(**shorter), FedAdam(**shorter), RARE, rare,
                    "After one large change come small ones: Yogi remembers the large one longer than Adam."),
    }  # fmt: skip
    for name in wanted or drawn:
        draw(*drawn[name])


if __name__ == "__main__":
    main(sys.argv[1:])

"""The pictures of CCVR and FedGen, whose work is the server's: ``python docs/server_drawings.py`` writes them.

CCVR's is computed: clients' features in a plane, their moments, the mixture, and what is drawn from it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from drawings import BLUE, GREY, INK, ORANGE, Drawing

from unskew.parts.calibrate.ccvr import drawn, merged, moments
from unskew.seeds import generator

COLOURS = (BLUE, ORANGE)


def ccvr() -> None:
    """Three clients' features of two classes, the Gaussians they tell, the merged ones, and draws of them."""
    d = Drawing(
        "CCVR",
        "Clients tell mean and covariance of their features of each class; the server merges them into one Gaussian "
        "a class and trains the classifier on as many draws of each.",
        height=290,
    )
    rng = generator(0, "drawings", "ccvr")
    centres = {0: ((-1.0, -0.2), (-0.3, 0.9), (-0.8, 0.4)), 1: ((0.9, -0.5), (0.5, -1.0), (1.1, 0.1))}
    held = {0: (14, 4, 2), 1: (2, 5, 13)}
    answers, clients = [], []
    for k in range(3):
        points = [rng.normal(centres[c][k], (0.35, 0.25), (held[c][k], 2)) for c in (0, 1)]
        labels = torch.tensor([0] * held[0][k] + [1] * held[1][k])
        features = torch.from_numpy(np.concatenate(points))
        clients.append((features, labels))
        answers.append(moments(features, labels))
    mixture = merged(answers, 2)

    def place(x: float, y: float, left: float, top: float, scale: float) -> tuple[float, float]:
        return left + scale * x, top - scale * y

    def ellipse(
        mean: torch.Tensor, spread: torch.Tensor, colour: str, where: tuple[float, float, float]
    ) -> None:
        values, vectors = torch.linalg.eigh(spread)
        angle = -np.degrees(np.arctan2(float(vectors[1, 1]), float(vectors[0, 1])))
        rx, ry = (2 * where[2] * max(float(v), 1e-4) ** 0.5 for v in values.flip(0))
        x, y = place(float(mean[0]), float(mean[1]), *where)
        d.parts.append(
            f'  <ellipse cx="{x:.1f}" cy="{y:.1f}" rx="{rx:.1f}" ry="{ry:.1f}" fill="{colour}" fill-opacity="0.15" '
            f'stroke="{colour}" stroke-width="1.4" transform="rotate({angle:.1f} {x:.1f} {y:.1f})"/>'
        )

    def dots(
        features: torch.Tensor, labels: torch.Tensor, where: tuple[float, float, float], size: float
    ) -> None:
        for (px, py), label in zip(features.tolist(), labels.tolist(), strict=True):
            x, y = place(px, py, *where)
            d.parts.append(f'  <circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" fill="{COLOURS[label]}"/>')

    d.text(120, 24, "what clients hold and tell", size=13)
    for k, (features, labels) in enumerate(clients):
        where = (120.0, 66.0 + 82 * k, 26.0)
        d.box(40, 32 + 82 * k, 160, 70, "#ffffff", GREY)
        dots(features, labels, where, 1.8)
        for gaussian in merged([answers[k]], 2):
            ellipse(gaussian.mean, gaussian.spread, COLOURS[gaussian.label], where)
        d.arrow(204, 67 + 82 * k, 262, 149, GREY, 1.2)
    d.text(120, 284, "n, μ, Σ of each class", GREY, 11)
    d.text(365, 24, "one Gaussian a class", size=13)
    d.box(268, 60, 194, 180, "#ffffff", INK)
    for gaussian in mixture:
        ellipse(gaussian.mean, gaussian.spread, COLOURS[gaussian.label], (365.0, 150.0, 45.0))
    for features, labels in clients:
        dots(features, labels, (365.0, 150.0, 45.0), 1.4)
    d.text(365, 258, "moments of all features together,", GREY, 11)
    d.text(365, 273, "none of which was sent", GREY, 11)
    d.arrow(466, 150, 520, 150, GREY, 1.6)
    d.text(623, 24, "as many draws of each", size=13)
    d.box(526, 60, 194, 180, "#ffffff", INK)
    features, labels = drawn(mixture, 60, rng)
    where = (623.0, 150.0, 52.0)
    shown = (features.abs() < 1.7).all(1)
    dots(features[shown], labels[shown], where, 1.8)
    apart = torch.linalg.solve(sum(g.spread for g in mixture), mixture[1].mean - mixture[0].mean)
    middle, along = (mixture[0].mean + mixture[1].mean) / 2, torch.stack([-apart[1], apart[0]])
    along = along / along.abs().max() * 1.5
    ends = [place(*(middle + s * along).tolist(), *where) for s in (-1, 1)]
    d.line(*ends[0], *ends[1], INK, 2.2)
    d.text(623, 258, "the classifier, trained again", INK, 12)
    d.save("ccvr")


def fedgen() -> None:
    """A server's and a client's lane through a round, and what travels."""
    d = Drawing(
        "A round of FedGen",
        "After a round the server trains a generator against the models that stand; in the next round it is sent "
        "along, and clients train on made-up rows of every class beside their own.",
        height=280,
    )
    d.text(12, 62, "server", size=13, at="start", bold=True)
    d.text(12, 214, "client k", size=13, at="start", bold=True)
    for y in (58, 210):
        d.line(96, y, 744, y, GREY, 1, "3 4")
    d.box(100, 36, 96, 44, "#ffffff", INK)
    d.text(148, 54, "w_t", INK, 13)
    d.text(148, 71, "generator G", ORANGE, 11)
    d.arrow(160, 82, 204, 158, INK)
    d.text(172, 128, "both", GREY, 11, "end")
    d.box(180, 160, 330, 100)
    d.text(345, 178, "a local step", size=13)
    d.box(196, 190, 120, 26, "#ffffff", BLUE)
    d.text(256, 207, "own batch x, y", BLUE)
    d.box(196, 226, 120, 26, "#ffffff", ORANGE)
    d.text(256, 243, "G(z, y): all classes", ORANGE, 11)
    d.arrow(318, 203, 352, 216, BLUE, 1.4)
    d.arrow(318, 239, 352, 226, ORANGE, 1.4)
    d.text(358, 225, "l(f(x), y) + weight l(f(G), y)", INK, 11, "start")
    d.arrow(470, 158, 520, 84, INK)
    d.text(504, 124, "model", GREY, 11, "start")
    d.text(504, 139, "(latent: label counts)", GREY, 11, "start")
    d.box(500, 36, 76, 44, "#ffffff", INK)
    d.text(538, 63, "new w", INK, 13)
    d.arrow(580, 58, 606, 58, INK)
    d.box(610, 20, 134, 78, "#ffffff", ORANGE)
    d.text(677, 38, "train G by Adam", ORANGE, 12)
    d.text(677, 56, "min l(judge(G(z, y)), y)", INK, 11)
    d.text(677, 74, "input: judge = the global model", GREY, 9)
    d.text(677, 88, "latent: the clients' classifiers", GREY, 9)
    d.text(538, 22, "average", GREY, 11)
    d.save("fedgen")


DRAWN: dict[str, Callable[[], None]] = {f.__name__: f for f in (ccvr, fedgen)}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or DRAWN:
        DRAWN[wanted]()

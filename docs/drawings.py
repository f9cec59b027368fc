"""The pictures on the pages of FLea and its baselines, drawn: ``python docs/drawings.py`` writes ``docs/img/*.svg``."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from unskew.files import write_file
from unskew.seeds import generator

IMG = Path(__file__).resolve().parent / "img"
INK, GREY, BLUE, PALE, ORANGE = "#24292f", "#8b949e", "#2f6fb2", "#dbe8f5", "#d9822b"


class Drawing:
    """Shapes on white, in the order drawn."""

    def __init__(self, title: str, about: str, height: int = 240, width: int = 760):
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="t d" font-family="Helvetica, Arial, sans-serif">',
            f'  <title id="t">{title}</title>',
            f'  <desc id="d">{about}</desc>',
            f'  <rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]

    def text(
        self,
        x: float,
        y: float,
        words: str,
        colour: str = INK,
        size: int = 12,
        at: str = "middle",
        bold: bool = False,
    ) -> None:
        """Words; ``a_b`` writes b below the line."""
        pieces = words.split("_")
        shown = pieces[0] + "".join(
            f'<tspan baseline-shift="sub" font-size="{size - 3}">{p[:1]}</tspan>{p[1:]}' for p in pieces[1:]
        )
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'  <text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{at}"{weight}>{shown}</text>'
        )

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        colour: str = INK,
        width: float = 1.6,
        dash: str = "",
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'  <line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
            f'stroke-width="{width:g}"{dashes}/>'
        )

    def arrow(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        colour: str = INK,
        width: float = 1.8,
        dash: str = "",
    ) -> None:
        angle = math.atan2(y2 - y1, x2 - x1)
        self.line(x1, y1, x2 - 7 * math.cos(angle), y2 - 7 * math.sin(angle), colour, width, dash)
        tips = [(x2 - 9 * math.cos(angle + t), y2 - 9 * math.sin(angle + t)) for t in (-0.42, 0.42)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(x2, y2), *tips])
        self.parts.append(f'  <polygon points="{points}" fill="{colour}"/>')

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = PALE,
        edge: str = BLUE,
        dash: str = "",
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'  <rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="3" fill="{fill}" '
            f'stroke="{edge}" stroke-width="1.2"{dashes}/>'
        )

    def bars(
        self,
        x: float,
        y: float,
        values: Sequence[float],
        scale: float,
        fills: Sequence[str],
        names: Sequence[str],
    ) -> None:
        """Bars standing on y, with names below."""
        for i, (value, fill, name) in enumerate(zip(values, fills, names, strict=True)):
            left, tall = x + 34 * i, max(1.0, scale * value)
            self.box(left, y - tall, 24, tall, fill, INK if fill == INK else fill)
            self.text(left + 12, y + 15, name, GREY, 11)
        self.line(x - 6, y, x + 34 * len(values) - 4, y, GREY, 1)

    def save(self, name: str) -> None:
        write_file(IMG / f"{name}.svg", "\n".join([*self.parts, "</svg>", ""]))


def moon() -> None:
    """Three directions of one sample's features, and where the contrast pushes."""
    d = Drawing(
        "MOON's contrast",
        "Features of a sample under the model being trained are pulled towards those under the global model and "
        "pushed from those under the client's last model.",
    )
    d.text(95, 40, "one sample x", size=13)
    d.box(70, 52, 50, 40)
    rows = [("global model", BLUE, "w_t"), ("being trained", INK, "w"), ("its last upload", ORANGE, "w_p")]
    for i, (name, colour, symbol) in enumerate(rows):
        y = 40 + 56 * i
        d.arrow(122, 72, 208, y + 18, GREY, 1.2)
        d.box(210, y, 150, 36, "#ffffff", colour)
        d.text(285, y + 22, f"{name}  {symbol}", colour)
    d.text(285, 208, "kept in the client's memory", GREY, 11)
    d.line(285, 192, 285, 196, GREY, 1)
    x, y = 500, 196
    for angle, colour, symbol in ((70, BLUE, "z_g"), (38, INK, "z"), (6, ORANGE, "z_p")):
        tip = x + 150 * math.cos(math.radians(angle)), y - 150 * math.sin(math.radians(angle))
        d.arrow(x, y, *tip, colour, 2.4)
        d.text(tip[0] + 14, tip[1] - 4, symbol, colour, 14)
    d.text(440, 30, "features", size=13)
    d.arrow(604, 96, 572, 72, BLUE, 2)
    d.text(598, 68, "pull", BLUE, at="start")
    d.arrow(638, 162, 622, 118, ORANGE, 2)
    d.text(640, 138, "push", ORANGE, at="start")
    d.save("moon")


def feddecorr() -> None:
    """Two correlation matrices: of features that live in one direction, and of features that fill space."""
    d = Drawing(
        "FedDecorr's matrix",
        "The correlations of a batch's features, collapsed and spread; FedDecorr punishes the mean square.",
    )
    rng = generator(0, "drawings", "feddecorr")
    noise = rng.normal(size=(64, 8))
    common = rng.normal(size=(64, 1))
    for place, (name, features) in enumerate({"a few classes": noise + 2 * common, "wanted": noise}.items()):
        r = np.abs(np.corrcoef(features.T))
        left = 110 + 330 * place
        for i in range(8):
            for j in range(8):
                shade = int(255 - 175 * r[i, j])
                fill = f"#{shade:02x}{int(255 - 0.55 * (255 - shade)):02x}ff"
                d.box(left + 20 * i, 44 + 20 * j, 18, 18, fill, fill)
        d.text(left + 80, 32, name, size=13)
        d.text(left + 80, 226, f"‖K‖² / d² = {float((r**2).mean()):.2f}", GREY)
    d.arrow(300, 124, 420, 124, ORANGE, 2.4)
    d.text(360, 112, "β/d² ‖K‖²", ORANGE)
    d.text(640, 118, "|correlation| of", GREY, at="start")
    d.text(640, 134, "8 features", GREY, at="start")
    d.save("feddecorr")


def fedlc() -> None:
    """How many samples a client has of each class, and the margin of each."""
    d = Drawing(
        "FedLC's margins",
        "The fewer samples a client holds of a class, the larger the margin its logit must clear.",
    )
    counts, names = [60, 25, 8, 1], ["a", "b", "c", "d"]
    d.text(170, 30, "samples of a client", size=13)
    d.bars(100, 200, counts, 2.4, [BLUE] * 4, names)
    for i, n in enumerate(counts):
        d.text(112 + 34 * i, 194 - 2.4 * n, str(n), GREY, 11)
    d.text(490, 30, "margin taken off the logit, τ n^(−1/4)", size=13)
    margins = [n**-0.25 for n in counts]
    d.bars(400, 200, margins, 140, [ORANGE] * 4, names)
    for i, m in enumerate(margins):
        d.text(412 + 34 * i, 194 - 140 * m, f"{m:.2f}", GREY, 11)
    d.box(540, 56, 24, 144, "#ffffff", ORANGE, "4 3")
    d.text(552, 215, "e", GREY, 11)
    d.text(576, 96, "none: out of the softmax", GREY, at="start")
    d.text(576, 112, "(or a finite margin: absent)", GREY, at="start")
    d.arrow(270, 120, 370, 120, GREY)
    d.save("fedlc")


def fedrs() -> None:
    """Logits before and after; those of absent classes shrink."""
    d = Drawing("FedRS's softmax", "Logits of classes that a client does not hold are multiplied by alpha.")
    logits, held, names = [2.4, 1.2, 2.0, 1.0], [True, True, False, False], ["a", "b", "c", "d"]
    d.text(170, 30, "logits", size=13)
    d.bars(100, 200, logits, 56, [BLUE if h else ORANGE for h in held], names)
    d.text(500, 30, "restricted", size=13)
    scaled = [z if h else z / 2 for z, h in zip(logits, held, strict=True)]
    d.bars(430, 200, scaled, 56, [BLUE if h else ORANGE for h in held], names)
    for i, (z, h) in enumerate(zip(logits, held, strict=True)):
        if not h:
            d.box(430 + 34 * i, 200 - 56 * z, 24, 28 * z, "#ffffff", ORANGE, "4 3")
    d.arrow(270, 130, 400, 130, GREY)
    d.text(335, 120, "× α where absent", ORANGE)
    d.text(590, 120, "held by the client", BLUE, at="start")
    d.text(590, 140, "absent", ORANGE, at="start")
    d.save("fedrs")


def fedntd() -> None:
    """Two predictions without the true class, compared."""
    d = Drawing(
        "FedNTD's comparison",
        "Global and local model are compared on the classes other than the true one, each renormalised without it.",
    )
    names = ["true", "b", "c", "d"]
    for left, name, values, colour in (
        (90, "global model, fixed", [0.5, 0.3, 0.15, 0.05], INK),
        (450, "client's model", [0.8, 0.04, 0.06, 0.1], BLUE),
    ):
        d.text(left + 66, 30, name, colour, 13)
        d.bars(left, 200, [0, *values[1:]], 460, ["#ffffff", *[colour] * 3], names)
        d.box(left, 200 - 130 * values[0] - 20, 24, 130 * values[0] + 20, "#ffffff", GREY, "4 3")
        d.line(left - 4, 205 - 130 * values[0] - 20, left + 28, 196, GREY, 1.2)
    d.arrow(260, 130, 420, 130, ORANGE, 2.4)
    d.text(340, 118, "β KL, not-true only", ORANGE)
    d.text(610, 110, "the true class is left", GREY, at="start")
    d.text(610, 126, "to cross-entropy", GREY, at="start")
    d.save("fedntd")


def fedbr() -> None:
    """Averages go round once; a step mixes them and plays two sides."""
    d = Drawing(
        "A step of FedBR",
        "Averages of samples are gathered once. A step mixes them with the batch, asks the classifier for a nearly "
        "uniform answer, and contrasts features through a head that plays against the model.",
        height=270,
    )
    d.text(80, 30, "once, before round 0", size=13)
    for i in range(4):
        d.box(40 + 22 * i, 48 + 14 * (i % 2), 16, 16)
    d.text(80, 98, "10 samples of one client", GREY, 11)
    d.arrow(80, 104, 80, 134, GREY)
    d.box(62, 138, 36, 36, ORANGE, ORANGE)
    d.text(80, 192, "x_p, an average; 32 of them", GREY, 11)
    d.text(80, 208, "to everyone, without labels", GREY, 11)
    d.arrow(104, 156, 210, 130, ORANGE)
    d.box(180, 48, 32, 32, PALE, BLUE)
    d.text(196, 42, "x of the batch", GREY, 11)
    d.arrow(200, 82, 226, 112, BLUE)
    d.box(214, 112, 36, 36, "#eab98a", INK)
    d.text(232, 166, "x′, their mean", size=12)
    d.arrow(254, 130, 330, 84, INK)
    d.box(334, 58, 190, 44)
    d.text(429, 76, "classifier on x′", size=12)
    d.text(429, 93, "target: half uniform, half y", GREY, 11)
    d.text(560, 84, "+ λ CE(x′, y′)", INK, 13, "start")
    d.arrow(254, 136, 330, 182, INK)
    d.box(334, 146, 190, 88, "#ffffff", BLUE)
    d.text(429, 164, "features through a head P: l_c", size=12)
    d.text(429, 186, "φ(x′) near φ_g(x′) of the global model", BLUE, 10)
    d.text(429, 204, "and far from φ(x) of the batch", ORANGE, 10)
    d.text(560, 178, "+ μ l_c   the model descends", BLUE, 13, "start")
    d.text(560, 204, "− γ l_c   the head climbs", ORANGE, 13, "start")
    d.save("fedbr")


def flea() -> None:
    """One round: features of the last clients down, mixed in, and new ones up under the new model."""
    d = Drawing(
        "A round of FLea",
        "The server sends the model and shared features. A client mixes its own features with them half-way through "
        "the model. After averaging, the clients get the new model and share features under it.",
        height=300,
    )
    d.text(12, 50, "server", size=13, at="start", bold=True)
    d.text(12, 178, "client", size=13, at="start", bold=True)
    for y in (46, 174):
        d.line(66, y, 748, y, GREY, 1, "3 4")
    d.box(84, 28, 62, 36, "#ffffff", INK)
    d.text(115, 50, "model")
    d.box(170, 28, 120, 36, "#fae6cf", ORANGE)
    d.text(230, 50, "buffer: f_F, y_F")
    d.arrow(115, 66, 115, 146, INK)
    d.box(80, 148, 70, 52)
    d.text(115, 170, "lower")
    d.text(115, 186, "layers")
    d.arrow(150, 174, 206, 174, BLUE)
    d.text(178, 166, "f", BLUE, 13)
    d.arrow(250, 66, 266, 146, ORANGE)
    d.box(208, 148, 122, 52, "#f1e4d6", INK)
    d.text(269, 170, "β f + (1 − β) f_F")
    d.text(269, 188, "β y + (1 − β) y_F", GREY, 11)
    d.arrow(330, 174, 374, 174)
    d.box(376, 148, 70, 52)
    d.text(411, 170, "upper")
    d.text(411, 186, "layers")
    d.text(115, 232, "+ λ_2 c(x, f)", BLUE, 13)
    d.text(115, 250, "f should tell little of x", GREY, 11)
    d.text(269, 232, "β ~ Beta(2, 2)", INK, 13)
    d.text(269, 250, "for every sample", GREY, 11)
    d.text(411, 232, "CE + λ_1 KL", BLUE, 13)
    d.text(411, 250, "to the global model", GREY, 11)
    d.arrow(447, 160, 500, 66, INK)
    d.box(470, 28, 84, 36, "#ffffff", INK)
    d.text(512, 50, "average")
    d.arrow(540, 66, 580, 146, INK)
    d.text(568, 100, "a second download", GREY, 11, "start")
    d.box(540, 148, 150, 52)
    d.text(615, 170, "features of a tenth of")
    d.text(615, 186, "its samples, under it")
    d.arrow(690, 160, 708, 66, ORANGE)
    d.box(660, 28, 88, 36, "#fae6cf", ORANGE)
    d.text(704, 50, "next buffer")
    d.text(380, 284, "only the round's clients share, and their features live for one round", GREY)
    d.save("flea")


def fedmix() -> None:
    """Averages go round once; a step mixes them in, or expands around the scaled sample."""
    d = Drawing(
        "A step of FedMix",
        "Averages of ten samples and of their labels are gathered once from everybody. A step mixes one of them into "
        "each sample, or approximates that with the slope of the loss along the average.",
    )
    d.text(90, 30, "once, before round 0", size=13)
    for i in range(5):
        d.box(40 + 22 * i, 48 + 12 * (i % 2), 16, 16)
    d.text(90, 96, "ten samples of a client", GREY, 11)
    d.arrow(90, 104, 90, 134, GREY)
    d.box(72, 138, 36, 36, ORANGE, ORANGE)
    d.text(90, 194, "their mean x_m, and their", GREY, 11)
    d.text(90, 210, "labels' mean y_m, to everyone", GREY, 11)
    d.box(196, 40, 36, 36)
    d.text(214, 34, "x, y", BLUE, 13)
    d.arrow(236, 62, 286, 74, BLUE)
    d.arrow(228, 80, 286, 158, BLUE)
    d.arrow(112, 148, 286, 96, ORANGE)
    d.arrow(112, 160, 286, 184, ORANGE)
    d.box(290, 52, 220, 58, "#ffffff", INK)
    d.text(400, 72, "taylor=false (FLea)", GREY, 11)
    d.text(400, 94, "train on β x + (1 − β) x_m", size=13)
    d.box(290, 136, 220, 74, "#ffffff", INK)
    d.text(400, 156, "taylor=true (the original)", GREY, 11)
    d.text(400, 178, "train on (1 − λ) x", size=13)
    d.text(400, 198, "and add the slope along x_m", size=13)
    d.text(530, 84, "label β y + (1 − β) y_m", INK, 12, "start")
    d.text(530, 168, "label (1 − λ) y + λ y_m", INK, 12, "start")
    d.text(530, 192, "+ λ ∂L/∂x · x_m", ORANGE, 13, "start")
    d.save("fedmix")


def balanced() -> None:
    """How many samples there are of each class, and what each counts."""
    d = Drawing(
        "The balanced loss",
        "The fewer samples there are of a class, the more each counts; over all samples the mean weight is 1.",
    )
    counts, names = [60, 25, 8, 1], ["a", "b", "c", "d"]
    d.text(170, 30, "samples of each class", size=13)
    d.bars(100, 200, counts, 2.4, [BLUE] * 4, names)
    for i, n in enumerate(counts):
        d.text(112 + 34 * i, 194 - 2.4 * n, str(n), GREY, 11)
    d.text(480, 30, "what all of a class count: n_c w_c", size=13)
    d.bars(410, 200, [23.5] * 4, 2.4, [ORANGE] * 4, names)
    for i, n in enumerate(counts):
        d.text(422 + 34 * i, 194 - 2.4 * 23.5, f"×{23.5 / n:.2g}", GREY, 11)
    d.box(548, 199, 24, 1, "#ffffff", GREY)
    d.text(560, 215, "e", GREY, 11)
    d.text(584, 196, "not there: weight 0", GREY, at="start")
    d.arrow(270, 130, 380, 130, GREY)
    d.text(325, 120, "w = n / (m n_c)", ORANGE)
    d.save("balanced")


def local_only() -> None:
    """Three clients that train for themselves, and the one test set that judges all of their models."""
    d = Drawing(
        "Every client on its own",
        "Each client trains a model of its own in every round in which it has a turn. Nothing is sent. All models are "
        "judged on the same test set.",
    )
    for i, who in enumerate(("north", "south", "east")):
        y = 62 + 62 * i
        d.text(70, y + 5, who, BLUE, 13)
        for turn in range(3):
            x = 130 + 110 * turn
            d.box(x, y - 16, 44, 32, PALE, BLUE)
            d.text(x + 22, y + 5, f"w_{i + 1}", INK, 13)
            if turn < 2:
                d.arrow(x + 48, y, x + 106, y, BLUE)
        d.arrow(400, y, 520, 124, GREY, 1.4)
    d.text(207, 30, "own batches", BLUE, 11)
    d.text(317, 30, "own batches", BLUE, 11)
    d.box(524, 96, 92, 56, "#ffffff", ORANGE)
    d.text(570, 120, "the global", ORANGE, 12)
    d.text(570, 137, "test set", ORANGE, 12)
    d.text(632, 118, "mean and spread", INK, 12, "start")
    d.text(632, 136, "over clients", INK, 12, "start")
    d.text(250, 232, "no byte is sent; as many turns as in the federated run", GREY, 11)
    d.save("local_only")


DRAWN: dict[str, Callable[[], None]] = {
    f.__name__: f for f in (moon, feddecorr, fedlc, fedrs, fedntd, fedbr, flea, fedmix, balanced, local_only)
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or DRAWN:
        DRAWN[wanted]()

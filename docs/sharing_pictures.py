"""The pictures of a round with shared data, docs/img/daca.svg and fed_data.svg: ``python docs/sharing_pictures.py``."""

from __future__ import annotations

from pathlib import Path

IMAGES = Path(__file__).parent / "img"
INK, GREY, BLUE, ORANGE, PAPER = "#24292f", "#8b949e", "#2f6fb2", "#d9822b", "#ffffff"
LIGHT = {BLUE: "#dbe8f5", ORANGE: "#fae6cf", GREY: "#eef1f4"}


def text(
    x: float, y: float, words: str, colour: str = INK, size: int = 12, bold: bool = False, at: str = "middle"
) -> str:
    weight = "bold" if bold else "normal"
    style = f'font-size="{size}" fill="{colour}" text-anchor="{at}" font-weight="{weight}"'
    return f'<text x="{x}" y="{y}" {style}>{words}</text>'


def line(
    x1: float, y1: float, x2: float, y2: float, colour: str = INK, dash: str = "", arrow: bool = False
) -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    end = f' marker-end="url(#to-{colour[1:]})"' if arrow else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.5"{dashed}{end}/>'
    )


def disc(x: float, y: float, r: float, colour: str, words: str = "") -> str:
    made = f'<circle cx="{x}" cy="{y}" r="{r}" fill="{LIGHT[colour]}" stroke="{colour}" stroke-width="1.5"/>'
    return made + (text(x, y + 4, words) if words else "")


def box(x: float, y: float, width: float, height: float, colour: str, *words: str) -> str:
    style = f'rx="6" fill="{LIGHT[colour]}" stroke="{colour}" stroke-width="1.4"'
    made = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" {style}/>'
    first = y + height / 2 + 4 - 8 * (len(words) - 1)
    return made + "".join(text(x + width / 2, first + 16 * at, each) for at, each in enumerate(words))


def whole(title: str, told: str, height: int, *pieces: str) -> str:
    heads = "".join(
        f'<marker id="to-{c[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 10 5 0 10z" fill="{c}"/></marker>'
        for c in (INK, ORANGE, BLUE, GREY)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" role="img" '
        f'aria-labelledby="t d" font-family="Helvetica, Arial, sans-serif">\n<title id="t">{title}</title>\n'
        f'<desc id="d">{told}</desc>\n<defs>{heads}</defs>\n'
        f'<rect width="760" height="{height}" rx="8" fill="{PAPER}"/>\n' + "\n".join(pieces) + "\n</svg>\n"
    )


def daca() -> str:
    """Left the graph of good links, in the middle two clusters, right the rounds."""
    nodes = {0: (60, 90), 1: (40, 170), 2: (150, 120), 3: (190, 200), 4: (90, 220), 5: (170, 60)}
    links = ((0, 1), (0, 2), (0, 4), (5, 2), (5, 3))
    pieces = [text(115, 30, "1  links close and fast enough", bold=True)]
    pieces += [line(*nodes[i], *nodes[j], GREY) for i, j in links] + [line(*nodes[1], *nodes[4], GREY, "3 4")]
    pieces += [disc(*place, 14, GREY, str(k)) for k, place in nodes.items()]
    pieces += [text(115, 262, "e ≥ e_th and v ≥ v_th", GREY)]
    moved = {k: (x + 270, y) for k, (x, y) in nodes.items()}
    pieces += [text(385, 30, "2  heads share with members", bold=True)]
    for m, c in ((0, 1), (0, 4), (5, 2), (5, 3)):
        (x1, y1), (x2, y2) = moved[m], moved[c]
        far = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        cut = 20 / far
        pieces.append(line(x1, y1, x2 - cut * (x2 - x1), y2 - cut * (y2 - y1), ORANGE, "", True))
    pieces += [
        disc(*moved[k], 18 if k in (0, 5) else 14, BLUE if k in (0, 5) else GREY, str(k)) for k in moved
    ]
    pieces += [text(385, 262, "lowest EMD leads; members join the most unlike", GREY)]
    pieces += [text(635, 30, "3  rounds as ever", bold=True), box(560, 60, 150, 44, BLUE, "server")]
    for at, (k, more) in enumerate(((1, 2), (2, 4), (3, 4))):
        x = 560 + 54 * at
        pieces += [box(x, 180, 42, 40, GREY, str(k)), box(x, 162, 42, 18, ORANGE, f"+{more}")]
        pieces += [
            line(x + 15, 158, x + 15, 110, INK, "", True),
            line(x + 27, 108, x + 27, 156, INK, "", True),
        ]
    pieces += [
        text(635, 244, "epochs over all samples held,", GREY),
        text(635, 260, "weights n_k: a client's own", GREY),
    ]
    told = "A graph of trusted, fast links; two heads multicast samples to their members; rounds go on as in FedAvg."
    return whole("Clustered data sharing before round 0", told, 280, *pieces)


def fed_data() -> str:
    """Up a tenth of everybody's data, down all of it."""
    pieces = [
        text(190, 30, "before round 0: everybody gives a share", bold=True),
        box(110, 56, 160, 44, BLUE, "server"),
    ]
    for at in range(3):
        x = 60 + 100 * at
        pieces += [
            box(x, 180, 70, 44, GREY, "n samples"),
            line(x + 35, 176, 140 + 50 * at, 104, ORANGE, "", True),
        ]
    pieces += [text(190, 250, "floor(0.1 n) of each client's own", GREY)]
    pieces += [
        text(560, 30, "everybody gets what the others gave", bold=True),
        box(480, 56, 160, 44, BLUE, "server"),
    ]
    for at in range(3):
        x = 430 + 100 * at
        pieces += [box(x, 190, 70, 34, GREY, "n samples"), box(x, 166, 70, 24, ORANGE, "+ others'")]
        pieces += [line(510 + 50 * at, 104, x + 35, 162, ORANGE, "", True)]
    pieces += [text(560, 250, "then rounds as ever, on all samples held", GREY)]
    told = "Clients send a share of their raw samples to the server, which hands all of them to all clients."
    return whole("Raw samples shared by everybody", told, 270, *pieces)


if __name__ == "__main__":
    for name, made in (("daca", daca()), ("fed_data", fed_data())):
        (IMAGES / f"{name}.svg").write_text(made)

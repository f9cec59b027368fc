"""Pictures of a partition: who holds what, how far each client is from the whole, and how little it holds.

Every builder takes plain counts or a ``Skew`` and returns an Altair chart whose title states what is seen.
Charts hold at most a few thousand marks whatever the number of clients: distributions are binned here, and
of many clients an evenly spaced sample is drawn, in their own order, which the subtitle says.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt

from unskew.data.federation import shown_name
from unskew.metrics import Skew
from unskew.report.assembly import Picture, below, beside, layered, y_at
from unskew.report.situation import (
    FALLS_FAR,
    STARTS_TO_FALL,
    TEN_CLASSES,
    ceiling_of,
    is_as_measured,
    scaled_to,
)
from unskew.report.theme import BLUE, INK, MUTED, RED, inline, trusted

Counts = npt.NDArray[Any]

MOST_BUBBLES = 60  # clients or classes; beyond that a bubble is too small to compare and colour takes over
MOST_COLUMNS = 320  # two pixels a client
MOST_CELLS = 16_000
PLOT = 640
GAP = 96


@trusted()
def partition_picture(
    counts: Counts,
    skew: Skew,
    labels: Sequence[str],
    about: str,
    *,
    scarce: int = 50,
    names: Sequence[str] | None = None,
) -> Picture:
    """All three pictures of a partition as one chart; ``about`` says which data and which partition.

    ``names`` are the clients' own, where they have any.
    """
    half = (PLOT - GAP) // 2
    matrix = client_class_matrix(counts, skew, labels, about, names=names)
    summaries = beside(
        emd_histogram(skew, ceiling=ceiling_of(counts), width=half),
        client_sizes(skew, scarce=scarce, width=half, names=names),
        spacing=GAP,
        bounds="flush",  # aligns the plots themselves, so that titles stand on one line
        resolve={"scale": {"color": "independent"}},
    )
    return below(matrix, summaries, resolve={"scale": {"color": "independent", "size": "independent"}})


def client_class_matrix(
    counts: Counts,
    skew: Skew,
    labels: Sequence[str],
    about: str,
    *,
    width: int = PLOT,
    names: Sequence[str] | None = None,
) -> Picture:
    """Client by class: bubble area, or colour where there are many, is the number of samples."""
    clients, classes = counts.shape
    shown = shown_clients(clients, classes)
    bubbles = max(clients, classes) <= MOST_BUBBLES
    called = _called(clients, names)
    rows, columns = np.nonzero(counts[shown])
    cells = [
        {"client": called[int(shown[r])], "class": labels[c], "samples": int(counts[shown[r], c])}
        for r, c in zip(rows.tolist(), columns.tolist(), strict=True)
    ]
    step = width / len(shown)
    row = float(np.clip((300 if bubbles else 340) / classes, 2.0, 28.0))
    ticks = [called[int(shown[i])] for i in _spread(len(shown), max(2, width // _room(called)))]
    mark = "bubble area" if bubbles else "colour"
    sample = "" if len(shown) == clients else f" · one client in {int(shown[1])} is drawn"
    base = alt.Chart(
        inline(cells),
        title=alt.TitleParams(
            holding(skew), subtitle=[about, f"{mark} = samples · clients in their own order{sample}"]
        ),
    ).encode(
        x=alt.X(
            "client:O",
            scale=alt.Scale(domain=[called[k] for k in shown.tolist()]),
            axis=alt.Axis(title="client", domain=False, grid=False, **_client_axis(ticks, names)),
        ),
        y=alt.Y(
            "class:N",
            scale=alt.Scale(domain=list(labels)),
            axis=alt.Axis(
                title=None,
                ticks=False,
                domain=False,
                grid=bubbles,
                labelOverlap="parity",
                labelLimit=140,
                values=[labels[i] for i in _spread(classes, int(row * classes / 11) or 1)],
            ),
        ),
        tooltip=_tips("client:O", "class:N", "samples:Q"),
    )
    largest = max(1, int(counts.max(initial=1)))
    if bubbles:
        # neighbours are rarely both full, so a bubble may reach over its column's edge
        area = np.pi / 4 * min(1.6 * step, 0.96 * row) ** 2
        chart = base.mark_circle(opacity=0.9, color=BLUE).encode(
            size=alt.Size(
                "samples:Q",
                scale=alt.Scale(domain=[0, largest], range=[0, area]),
                legend=alt.Legend(
                    title="samples", values=_legend_values(largest), symbolFillColor=BLUE, symbolStrokeWidth=0
                ),
            )
        )
    else:
        chart = base.mark_rect().encode(
            color=alt.Color(
                "samples:Q",
                scale=alt.Scale(type="sqrt", domain=[1, largest], range="ramp"),
                legend=alt.Legend(
                    title="samples", gradientLength=min(160, max(60, int(row * classes) - 30)), tickCount=4
                ),
            )
        )
    return chart.properties(width=width, height=max(40, round(row * classes)))


def emd_histogram(
    skew: Skew, *, ceiling: float = TEN_CLASSES, width: int = PLOT, height: int = 190
) -> Picture:
    """How far each client's labels are from the whole, with the system's value marked.

    Thresholds are scaled to the largest EMD that the system could have, as in what is said of it.
    """
    ceiling = ceiling or TEN_CLASSES  # of a single class there is nothing to scale to
    begins, far = (
        at if is_as_measured(at, ceiling) else scaled_to(at, ceiling) for at in (STARTS_TO_FALL, FALLS_FAR)
    )
    measured = is_as_measured(FALLS_FAR, ceiling)
    edges = np.linspace(0, 2, 41)
    held, _ = np.histogram(np.clip(known_emds(skew), 0, 2), edges)
    bars = [
        {"from": round(a, 3), "to": round(b, 3), "clients": int(n), "none": 0}
        for a, b, n in zip(edges[:-1].tolist(), edges[1:].tolist(), held.tolist(), strict=True)
        if n
    ]
    bands = (
        alt.Chart(inline([{"from": begins, "to": 2}, {"from": far, "to": 2}]))
        .mark_rect(color=RED, opacity=0.07)
        .encode(x=alt.X("from:Q"), x2=alt.X2("to:Q"))
    )
    histogram = (
        alt.Chart(inline(bars))
        .mark_rect(color=BLUE, stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X(
                "from:Q",
                scale=alt.Scale(domain=[0, 2], nice=False),
                axis=alt.Axis(
                    title="EMD of a client",
                    grid=False,
                    values=[0, 0.5, 1.0, 1.4 if measured else 1.5, 2],
                    format=".1f",
                ),
            ),
            x2=alt.X2("to:Q"),
            y=_height(int(held.max(initial=1)), headroom=1.2),
            y2=alt.Y2("none:Q"),
            tooltip=_tips("from:Q", "to:Q", "clients:Q"),
        )
    )
    mark = [{"emd": skew.emd, "text": f"system {skew.emd:.2f}"}]
    system = alt.Chart(inline(mark)).encode(x=alt.X("emd:Q"))
    left = skew.emd > 1.0
    return layered(
        bands,
        histogram,
        system.mark_rule(color=INK, strokeWidth=2),
        system.mark_text(
            align="right" if left else "left", dx=-6 if left else 6, baseline="top", fontWeight=600
        ).encode(text=alt.Text("text:N"), y=y_at(3)),
        width=width,
        height=height,
        title=alt.TitleParams(
            distance(skew, begins),
            subtitle=[
                "shaded: where CIFAR-10 lost accuracy (from 1.0)",
                "and lost much (from 1.4; thesis, figure 3.5)",
            ]
            if measured
            else [
                f"shaded: where accuracy fell (from {begins:.2f}) and fell far",
                f"(from {far:.2f}); with ten classes 1.0 and 1.4 (thesis)",
            ],
        ),
    )


def client_sizes(
    skew: Skew,
    *,
    scarce: int = 50,
    width: int = PLOT,
    height: int = 190,
    names: Sequence[str] | None = None,
) -> Picture:
    """How many samples clients hold; a bar per client where there are few, else their distribution."""
    sizes = skew.sizes
    tone = alt.Color("group:N", scale=alt.Scale(domain=["scarce", "more"], range=[RED, BLUE]), legend=None)
    title = alt.TitleParams(
        holdings(skew, scarce),
        subtitle=[
            f"smallest {sizes.min():,} · median {np.median(sizes):,.0f} · largest {sizes.max():,}",
            f"orange: at most {scarce}" if sizes.min() <= scarce else "",
        ],
    )
    if len(sizes) <= MOST_BUBBLES:
        bars = [
            {"client": called, "samples": n, "group": "scarce" if n <= scarce else "more"}
            for called, n in zip(_called(len(sizes), names), sizes.tolist(), strict=True)
        ]
        every = [bar["client"] for bar in bars]
        ticks = [every[i] for i in _spread(len(sizes), max(2, width // _room(every)))]
        chart = (
            alt.Chart(inline(bars), title=title)
            .mark_bar()
            .encode(
                x=alt.X(
                    "client:O",
                    scale=alt.Scale(domain=every),
                    axis=alt.Axis(title="client", **_client_axis(ticks, names)),
                ),
                y=_height(int(sizes.max(initial=1)), "samples"),
                color=tone,
                tooltip=_tips("client:O", "samples:Q"),
            )
        )
        line = (
            alt.Chart(inline([{"at": scarce}]))
            .mark_rule(color=MUTED, strokeDash=[4, 3])
            .encode(y=alt.Y("at:Q"))
        )
        layers = [chart, line] if sizes.max(initial=0) >= scarce else [chart]
        return layered(*layers, width=width, height=height, title=title)
    edges, log = _size_edges(sizes)
    values = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        inside = sizes[(sizes >= a) & (sizes < b)]
        few = int((inside <= scarce).sum())
        for group, start, end in (("scarce", 0, few), ("more", few, len(inside))):
            if end > start:
                values.append({"from": a, "to": b, "clients": end, "none": start, "group": group})
    tallest = max(v["clients"] for v in values)
    return (
        alt.Chart(inline(values), title=title)
        .mark_rect(stroke="white", strokeWidth=0.5)
        .encode(
            x=alt.X(
                "from:Q",
                scale=alt.Scale(
                    type="log" if log else "linear", domain=[float(edges[0]), float(edges[-1])], nice=False
                ),
                axis=alt.Axis(title="samples of a client", grid=False, tickCount=4, format="~s"),
            ),
            x2=alt.X2("to:Q"),
            y=_height(tallest),
            y2=alt.Y2("none:Q"),
            color=tone,
            tooltip=_tips("from:Q", "to:Q", "clients:Q"),
        )
        .properties(width=width, height=height)
    )


def holding(skew: Skew) -> str:
    """What the matrix shows, in one sentence."""
    lacking = skew.sparsity * skew.classes
    if skew.sparsity == 0:
        return f"Every client holds {'both classes' if skew.classes == 2 else f'all {skew.classes} classes'}"
    if np.isclose(lacking, skew.classes - 1):
        return "Every client holds a single class"
    return f"A client lacks {lacking:.1f} of the {skew.classes} classes on average"


def distance(skew: Skew, begins: float = STARTS_TO_FALL) -> str:
    """What the EMD histogram shows."""
    beyond = int(np.sum(known_emds(skew) > begins))
    at = "1.0" if begins == STARTS_TO_FALL else f"{begins:.2f}"
    return f"{_of(beyond, skew.clients, 'lies', 'lie')} beyond EMD {at}"


def holdings(skew: Skew, scarce: int) -> str:
    """What the sizes show."""
    few = int(np.sum(skew.sizes <= scarce))
    if few == 0:
        return f"Every client holds more than {scarce} samples"
    return f"{_of(few, skew.clients, 'holds', 'hold')} at most {scarce} samples"


def known_emds(skew: Skew) -> npt.NDArray[np.float64]:
    """The EMD of every client that holds a sample; an empty one has none."""
    emds = np.asarray(skew.emd_per_client, np.float64)
    return emds[~np.isnan(emds)]


def _tips(*fields: str) -> list[alt.Tooltip]:
    """Fields as Altair's own pieces: which pieces texts stand for it finds out slowly, and pages draw as one drags."""
    return [alt.Tooltip(field) for field in fields]


def _called(clients: int, names: Sequence[str] | None) -> list[Any]:
    """What the axis calls each client: its name, told apart from others that look the same, or its number."""
    if names is None:
        return list(range(clients))
    called = [shown_name(names, k) for k in range(clients)]
    seen = Counter(called)
    return [name if seen[name] == 1 else f"{name} ({k})" for k, name in enumerate(called)]


def _room(called: Sequence[Any]) -> int:
    """Pixels that a label on the axis of clients takes: names stand on their side."""
    return 46 if called and isinstance(called[0], int) else 14


def _client_axis(ticks: Sequence[Any], names: Sequence[str] | None) -> dict[str, Any]:
    shown: dict[str, Any] = {"values": list(ticks), "ticks": False}
    if names is None:
        return shown | {"labelAngle": 0, "format": ","}
    long = max(map(len, map(str, ticks)), default=0) * len(ticks) > 70
    return shown | {"labelAngle": -40 if long else 0, "labelLimit": 110}


def shown_clients(clients: int, classes: int) -> npt.NDArray[np.int64]:
    """The clients that are drawn: all, or an evenly spaced sample in their own order."""
    most = min(clients, MOST_COLUMNS, max(20, MOST_CELLS // max(1, classes)))
    stride = clients if most < 2 else _round_step(clients, most)
    return np.arange(0, clients, stride, dtype=np.int64)


def _of(part: int, whole: int, one: str, many: str) -> str:
    if part in (0, whole):
        return f"{'Every' if part else 'No'} client {one}"
    share = f"{part:,}" if whole < 10_000 else f"{part / whole:.1%}"
    return f"{share} of {whole:,} clients {one if part == 1 else many}"


def _height(most: int, what: str = "clients", headroom: float = 1.08) -> alt.Y:
    """The axis that counts; whole numbers only, and none at the very top, where it would push the title."""
    axis = alt.Axis(title=what, format=",d", domain=False, values=_few_ticks(most))
    return alt.Y(f"{what}:Q", scale=alt.Scale(domain=[0, most * headroom], nice=False), axis=axis)


def _few_ticks(most: int) -> list[int]:
    step = _round_step(most + 1, 5)
    return list(range(0, most + 1, step))


def _round_step(count: int, most: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, ... that cuts ``count`` into at most ``most`` pieces."""
    step, growth = 1, itertools.cycle((2, 2.5, 2))
    while -(-count // step) > most:
        step = int(step * next(growth))
    return step


def _spread(count: int, most: int) -> list[int]:
    """At most ``most`` places from 0 to count-1 at a round distance."""
    return list(range(0, count, _round_step(count, most)))


def _legend_values(largest: int) -> list[int]:
    """Three round counts up to the largest."""
    power = 10 ** int(np.floor(np.log10(largest)))
    top = max(v for v in (power, 2 * power, 5 * power) if v <= largest)
    return sorted({max(1, top // 5), max(1, top // 2), top})


def _size_edges(sizes: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], bool]:
    """Bin edges for client sizes: whole numbers where they are few, equal ratios where they span decades."""
    low, high = int(sizes.min()), int(sizes.max())
    if high - low < 24:
        return np.arange(low, high + 2, dtype=np.float64), False
    if high / max(1, low) < 20:
        return np.linspace(low, high + 1, 25), False
    ratio = np.geomspace(max(1, low), high + 1, 33)
    edges = np.unique(np.ceil(ratio))
    return (np.concatenate([[0.5], edges]) if low == 0 else edges), True

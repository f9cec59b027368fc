"""FedAug's tables 5.1 to 5.3: which share of the data stays unaltered (eq. 5.9), by EMD and by target."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unskew.arrays import Array
from unskew.data.partition import partition
from unskew.parts.prepare.fedaug import additions
from unskew.reproduce.making import Row, Wanted

CLASSES, TARGETS = 10, (0.0, 0.4, 0.8)
TABLE_51 = {  # sampler ll(t, f) at EMD 1.4: as printed
    (1, 0.78): ("0.13", "0.39", "0.64"),
    (2, 0.88): ("0.24", "0.46", "0.68"),
    (3, 1.0): ("0.30", "0.50", "0.70"),
}
TABLE_52 = {  # by EMD: as printed, and of how many samplers
    0.4: (("0.78", "", ""), 7),
    0.8: (("0.45", "0.66", ""), 6),
    1.2: (("0.29", "0.51", "0.72"), 4),
    1.4: (("0.22", "0.45", "0.67"), 3),
}
TABLE_53 = {
    0.4: ("0.6 ± 0.1", "", ""),
    0.8: ("0.5 ± 0.1", "0.7 ± 0.1", ""),
    1.2: ("0.2 ± 0.1", "0.5 ± 0.1", "0.7 ± 0.1"),
    1.4: ("0.2 ± 0.1", "0.4 ± 0.1", "0.6 ± 0.0"),
}


def table51(wanted: Wanted) -> list[Row]:
    """At EMD 1.4."""
    rows = [
        {
            "sampler": f"ll({t}, {f:.2f})",
            **_beside(printed, [f"{_share(_held(t, f), to):.3f}" for to in TARGETS]),
        }
        for (t, f), printed in TABLE_51.items()
    ]
    means = [np.mean([_share(_held(t, f), to) for t, f in TABLE_51]) for to in TARGETS]
    return [
        *rows,
        {"sampler": "mean", **_beside(("0.22", "0.45", "0.67"), [f"{mean:.3f}" for mean in means])},
    ]


def table52(wanted: Wanted) -> list[Row]:
    """The mean over all ll(t, f) that reach the EMD."""
    rows = []
    for emd, (printed, solutions) in TABLE_52.items():
        reached = list(_samplers(emd))
        ours = [
            f"{np.mean([_share(_held(t, f), to) for t, f in reached]):.3f}" if to < emd else ""
            for to in TARGETS
        ]
        said = f"{solutions} / {len(reached)}"
        rows.append({"EMD": emd, **_beside(printed, ours), "solutions printed / ours": said})
    return rows


def table53(wanted: Wanted) -> list[Row]:
    """Measured: CIFAR-10's labels over 20 clients, for every t that reaches the EMD, four seeds."""
    labels = np.repeat(np.arange(CLASSES), 5000)
    rows = []
    for emd, printed in list(TABLE_53.items())[-1 if wanted.quick else 0 :]:
        dealt = [
            partition(labels, f"limit_labels({t}, f={f!r}, at_least=1)", 20, seed).counts
            for t, f in _samplers(emd)
            for seed in ((0,) if wanted.quick else wanted.seeds or range(4))
        ]
        ours = []
        for to in TARGETS:
            shares = [_share(counts, to) for counts in dealt]
            ours.append(f"{np.mean(shares):.2f} ± {np.std(shares):.2f}" if to < emd else "")
        rows.append({"EMD": emd, **_beside(printed, ours)})
    return rows


def _samplers(emd: float) -> Iterator[tuple[int, float]]:
    """Every ll(t, f) with this EMD: 2f - 2tf/M (eq. 3.6)."""
    for t in range(1, CLASSES):
        f = round(emd / (2 - 2 * t / CLASSES), 6)
        if f <= 1:
            yield t, f


def _held(t: int, f: float) -> Array:
    """The label counts of a client of ll(t, f), eq. 3.5, with at least one sample of each class (section 4.4)."""
    shares = np.full(CLASSES, (1 - f) / CLASSES)
    shares[:t] += f / t
    return np.maximum((100_000 * shares).round().astype(np.int64), 1)[None]


def _share(counts: Array, target: float) -> float:
    """What stays unaltered: N / (N + what is added)."""
    return float(counts.sum() / (counts.sum() + additions(counts, target).sum()))


def _beside(printed: tuple[str, ...], ours: list[str]) -> dict[str, str]:
    told: dict[str, str] = {}
    for to, theirs, own in zip(TARGETS, printed, ours, strict=True):
        told |= {f"target {to} printed": theirs, f"{to} ours": own}
    return told

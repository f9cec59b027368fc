"""What in FLea's printed loss makes lambda2 = 3 empty the features: one thing changed at a time, on the digits.

``unskew reproduce flea-decor``; a few minutes on a CPU. Its table is in docs/methods/flea.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unskew.core.optimisers import Adam
from unskew.core.slots import Step
from unskew.metrics.distance_correlation import distance_correlation
from unskew.parts.objective import flea
from unskew.reproduce.making import Row, Wanted
from unskew.runs.running import run

SETTINGS: dict[str, Any] = {
    "dataset": "digits",
    "partition": "labels(3)",
    "clients": 40,
    "cohort": 6,
    "model": "mlp(hidden=[64, 64])",
    "epochs": 5,
    "batch": 16,
    "optimizer": "adam",
    "lr": 0.001,
    "decay": "exponential(0.98, floor=0.01)",
    "measure": ["correlation"],
    "engine": "fast",
    "workers": 1,
    "progress": False,
}


def root(x: Tensor, f: Tensor, weight: Tensor, squared: bool) -> Tensor:
    return distance_correlation(x, f, weight, squared=False)


def not_of_short_batches(x: Tensor, f: Tensor, weight: Tensor, squared: bool) -> Tensor:
    return distance_correlation(x, f, weight, squared) * (weight.sum() >= 8)


def unbiased(x: Tensor, f: Tensor, weight: Tensor, squared: bool) -> Tensor:
    """Székely and Rizzo, 2013: U-centred distances, whose mean product is 0 where nothing is shared."""
    count = weight.sum()
    pairs = (1 - torch.eye(len(f))) * weight[:, None] * weight[None, :]

    def centred(values: Tensor) -> Tensor:
        flat = torch.where(weight[:, None] > 0, values.flatten(1), 0)
        products = flat @ flat.T
        lengths = products.diagonal()
        squares = (lengths[:, None] + lengths[None, :] - 2 * products).clamp_min(0) * pairs
        apart = torch.where(squares > 0, squares, 1).sqrt() * (squares > 0)
        row = apart.sum(1) / (count - 2).clamp_min(1)
        return (apart - row[:, None] - row[None, :] + row.sum() / (count - 1).clamp_min(1)) * pairs

    a, b = centred(x), centred(f)
    scale = (a * a).sum() * (b * b).sum()
    sound = (scale > 0) & (count > 3)
    return (a * b).sum() / torch.where(sound, scale, 1).sqrt() * sound


def also_unmixed(part: flea.FLea, step: Step) -> Tensor | float:
    """The loss of eq. 6 and the cross-entropy of the batch as it is."""
    assert isinstance(step.out, flea.MixedOut)
    logits = step.net.head(step.params, step.out.own, part.cut(step.net))
    return AS_PRINTED(part, step) + step.net.task.loss(logits, step.batch.y, step.batch.weight)


def new_every_step(rule: Adam, params: Any, grads: Any, state: Any, lr: Any, count: Any) -> None:
    for moments in state.values():
        for value in moments.values():
            value.zero_()
    ADAM(rule, params, grads, state, lr, count * 0)


AS_PRINTED, ADAM = flea.FLea.penalty, Adam.step
CORRELATION, PENALTY, STEP = (flea, "distance_correlation"), (flea.FLea, "penalty"), (Adam, "step")
Change = tuple[tuple[Any, str], Callable[..., Any]]
TRIED: list[tuple[str, str, list[Change], dict[str, str]]] = [
    ("nothing", "flea(dense1)", [], {}),
    ("without distillation", "flea(dense1, distil=0)", [], {}),
    (
        "no decorrelation in batches of fewer than 8",
        "flea(dense1)",
        [(CORRELATION, not_of_short_batches)],
        {},
    ),
    ("short batches left out", "flea(dense1)", [], {"last": "drop"}),
    ("the unbiased statistic", "flea(dense1)", [(CORRELATION, unbiased)], {}),
    ("a new Adam in every step, as in the code", "flea(dense1)", [(STEP, new_every_step)], {}),
    ("the root of c, as in the code", "flea(dense1)", [(CORRELATION, root)], {}),
    (
        "**cross-entropy on the unmixed batch as well**, as in the code",
        "flea(dense1)",
        [(PENALTY, also_unmixed)],
        {},
    ),
    ("both of the last two", "flea(dense1)", [(CORRELATION, root), (PENALTY, also_unmixed)], {}),
    ("both, and lambda2 falls to 1", "flea(dense1, variant=code)", [], {}),
]


@contextmanager
def changed(changes: list[Change]) -> Iterator[None]:
    before = [(place, getattr(*place)) for place, _ in changes]
    try:
        for (owner, name), new in changes:
            setattr(owner, name, new)
        yield
    finally:
        for (owner, name), old in before:
            setattr(owner, name, old)


def make(wanted: Wanted) -> list[Row]:
    """What each change gave: best and final accuracy in per cent, and c at the end, means over seeds."""
    told: list[Row] = []
    for what, method, changes, extra in TRIED[-1:] if wanted.quick else TRIED:
        rows = []
        for seed in (0,) if wanted.quick else wanted.seeds or (0, 1):
            given = extra | {"method": method, "seed": seed, "rounds": wanted.rounds or 40}
            settings: Any = SETTINGS | given
            with changed(changes):
                ran = run(watch=wanted.watch, **settings)
            accuracy = [100 * line["global_test_accuracy"] for line in ran.folder.lines]
            last = ran.folder.lines[-1]["distance_correlation"]["flea"]
            rows.append((max(accuracy), accuracy[-1], last))
        best, final, c = np.mean(rows, axis=0).tolist()
        numbers = {"best": f"{best:.1f}", "final": f"{final:.1f}", "c at the end": f"{c:.2f}"}
        told.append({"change": what, "method": f"`{method}`", **numbers})
    return told


def over_rounds(wanted: Wanted) -> list[Row]:
    """Of runs with ``measure = ["correlation"]``: accuracy in per cent and c, round by round, means over seeds."""
    from unskew.report.results.gather import ACCURACY, gather

    found: dict[str, list[Any]] = {}
    for record in gather([wanted.runs]):
        found.setdefault(record.spec.method, []).append(record)
    rows: list[Row] = []
    for method, records in found.items():
        row: Row = {"method": f"`{method}`"}
        for at in (1, 5, 10, 20, 30, 40):
            lines = [line for record in records for line in record.lines if line["round"] == at]
            c = [line["distance_correlation"]["flea"] for line in lines if "distance_correlation" in line]
            if lines:
                said = f"{100 * np.mean([line[ACCURACY] for line in lines]):.1f}"
                row[f"round {at}"] = said + (f" ({np.mean(c):.2f})" if c else "")
        best = [100 * record.best[ACCURACY] for record in records]
        spread = f" ± {np.std(best, ddof=1):.1f}" if len(best) > 1 else ""
        rows.append(row | {"best": f"{np.mean(best):.1f}{spread}"})
    return rows

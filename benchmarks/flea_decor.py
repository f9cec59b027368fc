"""What in FLea's printed loss makes lambda2 = 3 empty the features: one thing changed at a time, on the digits.

Run from the repository's root: ``python benchmarks/flea_decor.py [seeds [rounds]]``; a few minutes on a CPU.
Its table is in docs/methods/flea.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

import unskew
from unskew.core.optimisers import Adam
from unskew.core.slots import Step
from unskew.metrics.distance_correlation import distance_correlation
from unskew.parts.objective import flea

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
    for value in state.values():
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
    ("a new Adam in every step", "flea(dense1)", [(STEP, new_every_step)], {}),
    ("the root of c", "flea(dense1)", [(CORRELATION, root)], {}),
    ("cross-entropy on the unmixed batch as well", "flea(dense1)", [(PENALTY, also_unmixed)], {}),
    ("both of the last two", "flea(dense1)", [(CORRELATION, root), (PENALTY, also_unmixed)], {}),
    ("variant=code", "flea(dense1, variant=code)", [], {}),
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


def main(seeds: int = 2, rounds: int = 40) -> None:
    print("| change | best | final | c at the end |\n|---|---|---|---|")
    for what, method, changes, extra in TRIED:
        rows = []
        for seed in range(seeds):
            with changed(changes):
                run = unskew.run(**SETTINGS | extra | {"method": method, "seed": seed, "rounds": rounds})
            accuracy = [100 * line["global_test_accuracy"] for line in run.folder.lines]
            last = run.folder.lines[-1]["distance_correlation"]["flea"]
            rows.append((max(accuracy), accuracy[-1], last))
        best, final, c = np.mean(rows, axis=0)
        print(f"| {what} | {best:.1f} | {final:.1f} | {c:.2f} |", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

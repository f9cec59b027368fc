"""FedAvg against an averaging that is not ours, on the same data, split, first weights and order of batches."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from unskew.core.plan import plan
from unskew.core.slots import Local
from unskew.data import Dataset, load
from unskew.data.partition import partition
from unskew.models import build
from unskew.runs.running import run

MODEL, SEED, ROUNDS = "mlp(hidden=[16])", 3, 3
LOCAL = Local(epochs=2, batch=8, lr=0.1)
Answers = list[tuple[list[Any], int]]


def by_hand(answers: Answers) -> list[Any]:
    """The weighted mean, layer by layer."""
    weights = [n for _, n in answers]
    layers = zip(*(arrays for arrays, _ in answers), strict=True)
    return [np.average(np.stack(layer), axis=0, weights=weights) for layer in layers]


def flower() -> Callable[[Answers], list[Any]]:
    """Flower's own averaging."""
    try:
        found = importlib.import_module("flwr.server.strategy.aggregate")
    except ImportError:
        pytest.skip("the peer is not installed: pip install flwr")
    return found.aggregate  # type: ignore[no-any-return]


def rounds_of(aggregate: Callable[[Answers], list[Any]], data: Dataset, lists: list[Any]) -> list[Any]:
    """FedAvg as anyone would write it: torch's SGD on every client, then the peer's average."""
    scale = [torch.tensor(v).reshape(1, -1, 1, 1) for v in (data.mean, data.std)]
    model = build(MODEL, data.shape, data.classes, seed=SEED)
    held = [p.detach().clone().numpy() for p in model.parameters()]
    for t in range(ROUNDS):
        answers: Answers = []
        for client, places in enumerate(lists):
            with torch.no_grad():
                for p, value in zip(model.parameters(), held, strict=True):
                    p.copy_(torch.from_numpy(np.asarray(value)))
            optimiser = torch.optim.SGD(model.parameters(), LOCAL.lr)
            work = plan(len(places), len(places), LOCAL, seed=SEED, t=t, client=client)
            for first, stop in pairwise(work.cuts):
                at = places[work.order[first:stop]]
                x = (torch.tensor(data.x[at]).float() - scale[0]) / scale[1]
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(x), torch.tensor(data.y[at])).backward()
                optimiser.step()
            answers.append(([p.detach().numpy().copy() for p in model.parameters()], len(places)))
        held = aggregate(answers)
    return held


@pytest.mark.parametrize("peer", ["numpy", "flower"])
def test_three_rounds_agree_with_a_peer_to_1e_6(peer: str) -> None:
    """Digits, 6 skewed clients, all of them every round, two epochs of SGD in float32."""
    aggregate = by_hand if peer == "numpy" else flower()
    data = load("digits")
    held = partition(data, "dirichlet(0.3)", clients=6, seed=SEED, fraction=0.2)
    theirs = rounds_of(aggregate, data, [held.samples(c) for c in range(6)])
    ours = run(
        dataset=held.federation(data),
        cohort=6,
        rounds=ROUNDS,
        model=MODEL,
        seed=SEED,
        epochs=LOCAL.epochs,
        batch=LOCAL.batch,
        lr=LOCAL.lr,
        progress=False,
    )
    for name, value in zip(ours.net.trainable, theirs, strict=True):
        assert np.abs(ours.state.params[name].numpy() - value).max() < 1e-6

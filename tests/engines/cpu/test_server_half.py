"""What workers tell the server so that it need not look itself, and what it shows of their memory without a copy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from unskew.core.engine import Job, RoundInputs
from unskew.core.faults import finite
from unskew.core.method import Method
from unskew.core.types import TREES, VECTORS, Ids, Leg, Update, no_rows
from unskew.core.visits import change_norms
from unskew.engines.cpu.fast import FastCPU
from unskew.testing.toy_federation import play, tiny


class Watched(FastCPU):
    """An engine that keeps its answers, and what stood in them when they came."""

    def __init__(self, **options: Any):
        super().__init__(workers=1, **options)
        self.updates: list[Update] = []
        self.came: list[dict[str, torch.Tensor]] = []
        self.answered: list[Any] = []

    def visit(self, job: Job, leg: Leg, rows: Ids, round_inputs: RoundInputs) -> Update:
        update = super().visit(job, leg, rows, round_inputs)
        self.updates.append(update)
        self.came.append({k: v.clone() for k, v in update.params.items()})
        self.answered.append(self.boards["answers"])
        return update


@pytest.mark.parametrize("method", ["fedavg", "scaffold+sem", "phase_shift(2)"])
@pytest.mark.parametrize(
    "settings",
    [
        {"model": "mlp(hidden=[5])"},
        {"model": "thesis_fashion"},
        {"model": "thesis_fashion", "batch_norm": "local"},
    ],
    ids=["stacked", "alone", "own statistics"],
)
def test_how_far_each_model_went_is_what_the_server_would_find(method: str, settings: dict[str, Any]) -> None:
    """In every leg, also where a visit goes on or statistics stay at home; and all of it is finite."""
    engine = Watched(record=True)
    play(Method.parse(method), tiny(sizes=(6, 6, 6, 6)), engine=engine, rounds=2, **settings)
    for update in engine.updates:
        unsaid = replace(update, went=no_rows())
        assert len(update.went) == len(update)
        assert change_norms(update) == pytest.approx(change_norms(unsaid), rel=1e-9)
        assert finite(update).all()


def test_a_model_that_is_not_finite_is_found_by_how_far_it_went() -> None:
    """Of two models one has an infinite number: it went infinitely far, and the models are looked at."""
    none: dict[str, Any] = {n: {} for n in TREES} | {n: torch.zeros(2) for n in VECTORS}
    params, base = {"w": torch.tensor([[1.0, torch.inf], [3.0, 4.0]])}, {"w": torch.zeros(2, 2)}
    update = Update(np.arange(2), np.arange(2), **(none | {"params": params, "base": base}))
    told = replace(update, went=torch.tensor(change_norms(update), dtype=torch.float64))
    assert told.went.tolist() == [torch.inf, 5.0]
    assert finite(told).tolist() == finite(update).tolist() == [False, True]


def test_what_an_update_shows_stays_while_somebody_keeps_it() -> None:
    """The models of a plain round are not copied, and the next round is trained elsewhere if they are still read."""
    kept, dropped = Watched(), Watched()
    keep = dropped.visit
    dropped.visit = lambda *given: (keep(*given), dropped.updates.clear())[0]  # type: ignore[method-assign]
    for engine in (kept, dropped):
        play(
            Method.parse("fedavg"), tiny(sizes=(6, 6, 6, 6)), engine=engine, rounds=3, model="mlp(hidden=[5])"
        )
    for update, came in zip(kept.updates, kept.came, strict=True):
        assert all(torch.equal(update.params[k], v) for k, v in came.items())
    assert len({*map(id, kept.answered)}) == 3
    assert len({*map(id, dropped.answered)}) == 1


def test_a_part_of_a_model_that_is_kept_stays_as_it_was() -> None:
    """One number of one client, of which the tensor that it was taken from is gone."""
    engine, parts, came = Watched(), list[torch.Tensor](), list[float]()
    visit = engine.visit

    def keep_one(*given: Any) -> Update:
        update = visit(*given)
        parts.append(next(iter(update.params.values()))[1].flatten()[0])
        came.append(float(parts[-1]))
        engine.updates.clear()
        return update

    engine.visit = keep_one  # type: ignore[method-assign]
    play(Method.parse("fedavg"), tiny(sizes=(6, 6, 6, 6)), engine=engine, rounds=3, model="mlp(hidden=[5])")
    assert [float(one) for one in parts] == came
    assert len({*came}) == 3

"""Clients' memories: every row is there, in memory or on disk, and a checkpoint holds them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from unskew.core.state import State, load_state, save_state
from unskew.core.store import ClientStore
from unskew.core.types import Tree
from unskew.seeds import generator


def filled(budget: int) -> tuple[ClientStore, dict[int, Tree]]:
    """A store after many visits of 300 clients, and what it must hold."""
    store, expected = ClientStore(budget=budget), {}
    for t in range(100):
        rng = generator(0, "visits", t)
        ids = rng.choice(300, 10, replace=False)
        memory = {
            "c": torch.from_numpy(rng.normal(size=(10, 7))),
            "count": torch.full((10,), t),
            "none": torch.zeros(10, 0),
        }
        store = store.put("scaffold", ids, memory)
        expected |= {int(c): {k: v[i] for k, v in memory.items()} for i, c in enumerate(ids)}
    return store, expected


def same(store: ClientStore, expected: dict[int, Tree]) -> bool:
    rows = ((store.get("scaffold", c, {}), row) for c, row in expected.items())
    return all(torch.equal(found[k], v) for found, row in rows for k, v in row.items())


def test_rows_past_the_budget_go_to_disk_and_come_back_the_same() -> None:
    """4,000 bytes hold some 60 of 300 rows; the others are read from disk."""
    store, expected = filled(budget=4_000)
    assert store.held <= 4_000
    assert store.spill is not None
    assert same(store, expected)


def test_the_file_of_spilled_rows_does_not_grow_for_ever() -> None:
    """A thousand replaced rows of 64 bytes would be 64,000; what is kept is bounded by what is live."""
    store, expected = filled(budget=1_000)
    assert store.spill is not None
    assert store.spill.end <= 5 * 64 * len(expected) + 1_000


def test_a_store_is_never_changed() -> None:
    """A round that is thrown away leaves the memories of the round before as they were."""
    store, expected = filled(budget=4_000)
    store.put(
        "scaffold",
        np.arange(10),
        {"c": torch.zeros(10, 7, dtype=torch.float64), "count": torch.zeros(10), "none": torch.zeros(10, 0)},
    )
    assert same(store, expected)


def test_a_checkpoint_holds_spilled_rows_too(tmp_path: Path) -> None:
    """Saved and read back, every client's memory is bit-identical, and so is everything else."""
    store, expected = filled(budget=4_000)
    server = {"scaffold": {"c": torch.arange(3.0)}, "fedavg": {}}
    state = State(3, {"w": torch.randn(3, 2), "b": torch.tensor(2.0)}, server, store, 7)
    save_state(state, tmp_path)
    back = load_state(tmp_path)
    assert back is not None
    assert (back.round, back.seed, set(back.server)) == (3, 7, {"scaffold", "fedavg"})
    assert torch.equal(back.params["w"], state.params["w"])
    assert back.params["b"].shape == ()
    assert same(back.clients, expected)

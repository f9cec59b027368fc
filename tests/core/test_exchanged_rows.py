"""Buffers of what clients handed over: how rows are dealt, stored and padded."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unskew.core.exchanged_rows import (
    batch_of,
    deal_rows,
    gather_rows,
    hand_out_rows,
    owners,
    pad_rows,
    pad_varying,
    restore_rows,
    store_rows,
)
from unskew.core.method import Method
from unskew.seeds import generator


def steps(count: int, steps: int, batch: int, width: int | None = None, pad: bool = False):
    """The rows, and the places filled by a loader, of every step of a visit."""
    held = {"rows": torch.zeros(count, 1)}
    held = pad_rows(held) if pad else held
    arrays = deal_rows(generator(3, "deal"), steps, batch)
    for s in range(steps):
        draws = {k: torch.tensor(v[s]) for k, v in arrays.items()}
        index, there = batch_of(held, draws, width or batch)
        yield index.tolist(), there.tolist()


def test_a_pass_sees_every_row_once_and_the_next_pass_is_another_order():
    """Seven rows in batches of three: 3 + 3 + 1 make a pass; the short batch is filled up from the pass's beginning."""
    found = list(steps(7, 6, 3))
    passes = [
        [r for rows, there in found[i : i + 3] for r, t in zip(rows, there, strict=True) if t] for i in (0, 3)
    ]
    assert [sorted(p) for p in passes] == [list(range(7))] * 2
    assert passes[0] != passes[1]
    assert [sum(there) for _, there in found] == [3, 3, 1, 3, 3, 1]
    assert found[2][0][1:] == found[0][0][:2]


def test_a_buffer_smaller_than_a_batch_is_used_several_times():
    """Two rows for a batch of five: every step is a pass, and both rows come at least twice."""
    for rows, there in steps(2, 4, 5):
        assert sorted(rows)[:2] == [0, 0]
        assert sum(there) == 2


def test_room_for_more_rows_changes_nothing():
    """Padded to 64 rows, the same rows are dealt, and none of the padding."""
    assert list(steps(7, 8, 3)) == list(steps(7, 8, 3, pad=True))
    held = pad_rows({"rows": torch.ones(70, 2), "labels": torch.ones(70), "decor": torch.tensor(2.0)})
    assert [len(held[k]) for k in ("rows", "labels")] == [128, 128]
    assert held["decor"].dim() == 0
    assert int(held["count"]) == 70
    assert pad_rows({}) == {}


def test_rows_keep_their_owners_and_owners_are_not_handed_out():
    """Client 4 gave two rows, client 7 none, client 9 one."""
    rows = [{"rows": torch.full((n, 2), float(n))} for n in (2, 0, 1)]
    held = gather_rows(rows, [4, 7, 9])
    assert held["owner"].tolist() == [4, 4, 9]
    assert owners(held).tolist() == [4, 9]
    assert set(hand_out_rows(held)) == {"rows"}
    assert gather_rows([{}, {}], [1, 2]) == {}
    assert owners({}).tolist() == []


@pytest.mark.parametrize(
    ("store", "most", "bytes_"), [("full", 0, 8), ("half", 2e-3, 2), ("byte", 1 / 255, 1)]
)
def test_fewer_bytes_cost_little_precision(store, most, bytes_):
    """Numbers of 0 to 2: half a step of 2/255 is the most that a byte loses; half loses 2^-11 of a number."""
    rows = torch.from_numpy(np.linspace(0, 2, 24).reshape(4, 2, 3))
    held = store_rows(rows, store)
    assert held["rows"].element_size() == bytes_
    again = restore_rows(held, torch.arange(4), torch.float64)
    assert float((again - rows).abs().max()) <= most
    assert restore_rows(held, torch.tensor([2, 0]), torch.float64).equal(again[[2, 0]])


def test_a_constant_row_and_a_huge_number_survive_storage():
    """A row without spread has no step to divide by; a number beyond half precision stays finite."""
    flat = store_rows(torch.full((2, 3), 1.5), "byte")
    assert restore_rows(flat, torch.arange(2), torch.float32).tolist() == [[1.5] * 3] * 2
    huge = store_rows(torch.tensor([[1e9, -1e9]]), "half")
    assert restore_rows(huge, torch.arange(1), torch.float32).isfinite().all()


@pytest.mark.parametrize("name", ["flea(last)", "fedmix"])
def test_rows_that_vary_get_room_in_which_they_may_vary(name: str) -> None:
    """A captured step depends on sizes: 70 rows and 80 rows take the same room, and a part of fixed sizes none."""
    method = Method.parse(f"{name}+fedprox(adaptive=true)")
    shapes = []
    for rows in (70, 80):
        held = {"rows": torch.ones(rows, 2), "labels": torch.ones(rows)}
        given = pad_varying(method.objective, {p.name: held for p in method.objective})
        padded, fixed = (given[part.name] for part in method.objective)
        shapes.append({k: v.shape for k, v in padded.items()})
        assert fixed is held
    assert shapes[0] == shapes[1]

"""Clients with batch sizes of their own on the GPU's engine: no padding to the run's batch, and stages that last."""

from __future__ import annotations

from itertools import pairwise

import pytest

from by_hand import holding
from unskew.engines import gpu
from unskew.method import Method
from unskew.tiny import apart, play

UNEQUAL = holding([[12, 3, 0], [0, 9, 1], [4, 4, 4], [0, 0, 30], [21, 0, 0], [0, 8, 8]])


def test_a_stage_has_room_for_the_largest_client_that_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of at most 30/5 = 6, though the run's own is 64; stages only grow, and the numbers are the loop's."""
    rooms: list[gpu.Room] = []

    class Watched(gpu.Stage):
        def __init__(self, task, site, room, *rest):  # type: ignore[no-untyped-def]
            rooms.append(room)
            super().__init__(task, site, room, *rest)

    monkeypatch.setattr(gpu, "Stage", Watched)
    method = Method.parse("dynamic(beta=5)")
    given = {"cohort": 2, "rounds": 12, "batch": 64}
    found = play(method, UNEQUAL, engine=gpu.FastGPU("cpu"), **given)
    assert apart(play(method, UNEQUAL, **given).state.params, found.state.params) < 1e-9
    assert rooms[-1].batch == 6
    grown = [(room.steps, room.batch) for room in rooms]
    assert all(a[0] <= b[0] and a[1] <= b[1] and a != b for a, b in pairwise(grown))
    assert len(rooms) < 12

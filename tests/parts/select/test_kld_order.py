"""The order in which ``kld`` looks at clients, and where from: however it is found, it is the one that is written."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.arrays import MANY_ROWS, told_once
from unskew.core.roster import Roster
from unskew.data import Dataset, Federation
from unskew.parts.select.kld import KLD, balanced, largest_first
from unskew.seeds import generator


@pytest.mark.parametrize("most", [1, 200, 60_000, 100_000])
@pytest.mark.parametrize("clients", [50, MANY_ROWS])
def test_the_largest_come_first_and_equals_as_they_come(most: int, clients: int) -> None:
    """Whatever type sizes are ordered in."""
    rng = np.random.default_rng(most)
    sizes, willing = rng.integers(0, most + 1, 2 * clients), rng.permutation(2 * clients)[:clients]
    assert np.array_equal(largest_first(willing, sizes), willing[np.argsort(-sizes[willing], kind="stable")])


def test_equal_sizes_told_once_leave_the_order_as_it_is() -> None:
    willing = np.random.default_rng(0).permutation(MANY_ROWS)[:100]
    assert np.array_equal(largest_first(willing, told_once(np.full(MANY_ROWS, 3))), willing)


@pytest.mark.parametrize("equal", [True, False])
def test_a_crowds_cohort_is_that_of_the_whole_table_in_int64(equal: bool) -> None:
    """No table of all clients' label counts, no order of them all in eight bytes each, and the same clients."""
    rng = np.random.default_rng(1)
    data = Dataset(
        "many", rng.random((300, 2), np.float32), rng.integers(0, 5, 300), np.zeros((1, 2), np.float32),
        np.zeros(1, np.int64), tuple("abcde"), kind="table",
    )  # fmt: skip
    sizes = np.full(MANY_ROWS, 3) if equal else rng.integers(0, 7, MANY_ROWS)
    crowd = Federation(data, rng.integers(0, 300, sizes.sum()), np.concatenate([[0], np.cumsum(sizes)]))
    busy = np.array([4, 17, MANY_ROWS - 1])
    cohort, _ = KLD().select(20, busy, Roster.of(crowd), {}, generator(5, "select", 0, 0))

    draw = generator(5, "select", 0, 0)
    willing = draw.permutation(np.delete(np.arange(MANY_ROWS), busy))[: MANY_ROWS // 2]
    ordered = willing[np.argsort(-crowd.sizes[willing], kind="stable")]
    clients, amounts, _ = balanced(crowd.counts, ordered, most=10, threshold=0.1, classes=draw.permutation(5))
    assert cohort.clients.tolist() == clients.tolist()
    assert np.array_equal(cohort.settings.per_class, amounts)
    assert cohort.clients.dtype == np.int64

"""Many numbers in little memory, and the same numbers as before."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

import numpy as np
import pytest

from unskew.arrays import MANY_ROWS, NUMBERS_AT_ONCE, Array, added, in_few_bytes, told_once, wide_blocks
from unskew.core.roster import Roster
from unskew.data import Dataset, Federation
from unskew.data.federation import census
from unskew.data.partition import partition
from unskew.metrics import skew
from unskew.parts.prepare.repeats import RunningSums, additions
from unskew.testing.toy_federation import tiny


@pytest.mark.parametrize(
    ("most", "kind"),
    [(255, np.uint8), (256, np.uint16), (65_536, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)],
)
def test_many_numbers_take_the_smallest_type_that_holds_them(most: int, kind: type) -> None:
    """A few are int64, as anybody expects of an array of numbers."""
    values = np.zeros(MANY_ROWS, np.int64)
    values[-1] = most
    assert in_few_bytes(values, most).dtype == kind
    assert np.array_equal(in_few_bytes(values, most), values)
    assert in_few_bytes(values[-5:], most).dtype == np.int64
    assert in_few_bytes(values[-5:], most, of=MANY_ROWS).dtype == kind


def test_many_equal_numbers_are_told_once() -> None:
    """They read as any int64; unequal ones and few are what they were."""
    equal, unequal = np.full(MANY_ROWS, 300, np.uint16), np.arange(MANY_ROWS, dtype=np.int32)
    assert told_once(equal).strides == (0,)
    assert told_once(equal)[[5, MANY_ROWS - 1]].tolist() == [300, 300]
    assert (told_once(equal) * 1000).sum() == MANY_ROWS * 300_000
    for values in (equal[:-1], unequal):
        assert told_once(values).strides == (8,)
        assert np.array_equal(told_once(values), values)


def test_wide_blocks_are_the_bytes_of_all_in_int64() -> None:
    """So that a checksum says the same whatever lists are kept in."""
    values = np.arange(2 * NUMBERS_AT_ONCE + 3, dtype=np.int32)
    digest = hashlib.sha256()
    for block in wide_blocks(values):
        digest.update(block.data)
    assert digest.digest() == hashlib.sha256(values.astype("<i8").data).digest()


@pytest.fixture(scope="module")
def crowd() -> Federation:
    """Clients of 0 to 4 samples out of 300, a tenth more clients than are many."""
    rng = np.random.default_rng(0)
    clients = MANY_ROWS + MANY_ROWS // 10
    data = Dataset(
        "many", rng.random((300, 2), np.float32), rng.integers(0, 3, 300), np.zeros((1, 2), np.float32),
        np.zeros(1, np.int64), ("a", "b", "c"), kind="table",
    )  # fmt: skip
    sizes = rng.integers(0, 5, clients)
    return Federation(data, rng.integers(0, 300, sizes.sum()), np.concatenate([[0], np.cumsum(sizes)]))


def test_a_crowds_lists_are_small_and_say_the_same(crowd: Federation) -> None:
    """Two bytes a place of 300, four an offset; one array says size, budget and weight."""
    assert crowd.indices.dtype == np.uint16
    assert crowd.offsets.dtype == np.int32
    assert crowd.sizes.dtype == crowd.samples(7).dtype == np.int64
    assert crowd.budget is crowd.sizes
    assert crowd.weigh is crowd.sizes
    assert crowd.pooled.strides == (0,)  # nobody is pooled, and that is said once


def test_a_crowds_label_counts_are_those_of_each_client(crowd: Federation) -> None:
    """Made some clients at a time, kept in a byte each, and widened where they are looked at."""
    y, classes = crowd.dataset.y, crowd.dataset.classes
    small = census(y, crowd.indices, crowd.offsets, classes)
    assert small.dtype == np.uint8
    some = np.array([0, 1, 57_000, crowd.clients - 1])
    expected = [np.bincount(y[crowd.samples(k)], minlength=classes) for k in some]
    roster = Roster.of(crowd)
    assert np.array_equal(small[some], expected)
    assert np.array_equal(roster.counts_of(some), expected)
    assert np.array_equal(roster.counts_of(some[::-1]), expected[::-1])
    assert np.array_equal(roster.counts_of(slice(57_000, 57_002)), small[57_000:57_002])
    assert roster.counts_of(some).dtype == roster.counts.dtype == np.int64
    assert np.array_equal(np.concatenate(list(roster.count_blocks())), roster.counts)
    assert roster.class_totals.tolist() == np.bincount(y[crowd.indices], minlength=classes).tolist()


def test_of_a_crowds_label_counts_no_table_is_kept_before_somebody_asks_for_one(crowd: Federation) -> None:
    """Of few clients the table is kept from the first look on, and the lists are looked at no more."""
    asked: list[Any] = []

    def count(some: Any) -> Array:
        asked.append(some)
        return crowd.take_census(some)

    roster, few = (Roster(crowd.dataset, crowd.sizes[:n], counts=count) for n in (crowd.clients, 100))
    assert np.array_equal(roster.look_at_counts(), crowd.take_census())
    assert np.array_equal(roster.counts_of(np.arange(3)), roster.small_counts[:3])
    assert len(asked) == 3
    assert np.array_equal(roster.counts_of(np.arange(3)), few.counts_of(np.arange(3)))
    assert len(asked) == 4
    few.counts_of(np.arange(5))
    assert len(asked) == 4


def test_a_crowd_of_equal_clients_says_once_how_much_each_holds(crowd: Federation) -> None:
    """Here, and where a roster has travelled to."""
    equal = Federation(crowd.dataset, np.resize(np.arange(300), 2 * MANY_ROWS), 2 * np.arange(MANY_ROWS + 1))
    for found in (Roster.of(equal), pickle.loads(pickle.dumps(Roster.of(equal)))):
        assert found.sizes.strides == found.budget.strides == found.weigh.strides == (0,)
        assert found.sizes.dtype == np.int64
        assert found.sizes.tolist() == [2] * MANY_ROWS


def test_a_crowds_roster_travels_in_few_bytes(crowd: Federation) -> None:
    """A byte a client, since nobody holds more than four samples."""
    sent = pickle.dumps(Roster.of(crowd))
    assert len(sent) < 2 * crowd.clients
    found = pickle.loads(sent)
    assert found.sizes.dtype == found.budget.dtype == np.int64  # to reckon with: a batch may be of 256
    assert found.sizes is found.budget
    for name in ("sizes", "budget", "weigh", "pooled"):
        assert np.array_equal(getattr(found, name), getattr(crowd, name))
    assert found.relative(11) == Roster.of(crowd).relative(11)


def test_the_systems_skew_needs_no_number_for_each_client(crowd: Federation) -> None:
    """The same numbers, and no array as long as there are clients."""
    counts = Roster.of(crowd).small_counts
    whole, system = skew(counts), skew(counts, per_client=False)
    assert system.as_dict(per_client=False) == whole.as_dict(per_client=False)
    assert len(system.emd_per_client) == len(system.sizes) == 0
    held = whole.sizes > 0
    weights = whole.sizes[held] / whole.samples
    assert whole.emd == pytest.approx(float(weights @ whole.emd_per_client[held]), abs=1e-12)


def test_running_sums_of_a_crowd_are_those_of_a_walk_through_it(crowd: Federation) -> None:
    """How many samples all clients before one repeat, from small tables."""
    roster, counts = Roster.of(crowd), crowd.take_census()
    clients = np.array([0, 1, 3_000, crowd.clients - 1])
    every = additions(counts, 0.7).sum(1)
    found = RunningSums.of(roster).before(clients, 0.7, roster)
    assert found.tolist() == [every[:k].sum() for k in clients]


def test_a_crowd_with_more_samples_than_it_was_dealt(crowd: Federation) -> None:
    """What is added is kept in few bytes, and sizes are reckoned in eight; nothing added is said once."""
    before = Roster.of(crowd)
    lifted = before.lifted("twice", lambda counts: 100 * counts, counted=True)
    assert lifted.sizes.dtype == lifted.weigh.dtype == np.int64
    assert np.array_equal(lifted.sizes, 101 * crowd.sizes)
    assert np.array_equal(lifted.budget, lifted.sizes)
    some = np.array([5, 3, crowd.clients - 1])
    assert np.array_equal(lifted.counts_of(some), 101 * before.counts_of(some))
    assert np.array_equal(lifted.small_counts[some], lifted.counts_of(some))
    nothing = before.lifted("nothing", np.zeros_like, counted=True)
    assert nothing.more.strides == (0,)
    assert np.array_equal(nothing.sizes, crowd.sizes)


def test_sums_are_told_once_where_both_are() -> None:
    """Else they are an array as any."""
    once, each = np.broadcast_to(np.int64(3), 4), np.arange(4)
    assert added(once, once).strides == (0,)
    assert added(once, once).tolist() == [6] * 4
    assert added(once, each).tolist() == added(each, once).tolist() == [3, 4, 5, 6]


def test_a_partition_of_many_and_its_federation_have_the_same_lists() -> None:
    """Not a copy in eight bytes a place beside one in few; what a client holds is told in int64."""
    labels = np.random.default_rng(0).integers(0, 3, 2 * MANY_ROWS)
    data = Dataset(
        "many", np.zeros((2 * MANY_ROWS, 1), np.float32), labels, np.zeros((1, 1), np.float32),
        np.zeros(1, np.int64), ("a", "b", "c"), kind="table",
    )  # fmt: skip
    dealt = partition(data, "iid", clients=MANY_ROWS, seed=1)
    federation = dealt.federation(data)
    assert federation.indices is dealt.indices
    assert federation.offsets is dealt.offsets
    assert dealt.indices.dtype == np.int32
    assert dealt.samples(3).dtype == dealt.sizes.dtype == np.int64


def test_some_clients_label_counts_are_asked_for_as_rows_of_a_table() -> None:
    """A mask, a step, from the end, nobody, one: as numpy has it."""
    federation = tiny()
    every = federation.take_census()
    mask = np.arange(federation.clients) % 2 == 0
    for asked in (
        mask,
        slice(0, 5, 2),
        np.array([-1, 0]),
        slice(3, 1),
        slice(1, 3),
        np.zeros(0, np.int64),
        2,
    ):
        assert np.array_equal(federation.take_census(asked), every[asked])  # type: ignore[arg-type]

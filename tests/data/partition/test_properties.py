"""What every partition keeps, whatever the labels, the family, its parameters and the number of clients."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.data.federation import census
from unskew.data.partition import FAMILIES, partition
from unskew.data.partition.deal import shares, throw
from unskew.data.partition.emd import vector_with_emd
from unskew.data.partition.repair import repair
from unskew.errors import InputError
from unskew.seeds import generator

MOST = 6  # classes

fraction = st.floats(0, 1).map(lambda v: round(v, 3))
alpha = st.floats(-6, 6).map(lambda e: float(f"{10**e:.3g}"))
some = st.integers(1, MOST)
expression = st.one_of(
    st.just("iid"),
    st.builds("limit_labels({}, f={})".format, some, fraction),
    st.builds("q({})".format, fraction),
    st.builds("limit_labels_q({}, {})".format, some, fraction),
    st.builds("dirichlet({})".format, alpha),
    st.builds("dirichlet({}, cap=true)".format, alpha),
    st.builds("dirichlet_client({})".format, alpha),
    st.builds("labels({})".format, some),
    st.builds("shards({})".format, st.integers(1, 9)),
    st.builds("quantity({})".format, alpha),
    st.builds("quantity({}, law=power)".format, alpha),
    st.builds("mixed(labels({}), dirichlet_client({}), share={})".format, some, alpha, fraction),
    st.builds("mixed(emd(0), limit_labels({}), share={})".format, some, fraction),
    st.just("emd(0)"),
)
labels = st.lists(st.integers(0, MOST - 1), min_size=1, max_size=60).map(lambda v: np.array(v, np.int64))


@given(labels, expression, st.integers(1, 70), st.integers(0, 3), st.integers(0, 5))
@settings(max_examples=500)
def test_every_sample_goes_to_exactly_one_client(y, said, clients, least, seed) -> None:
    """Any labels, one class or missing ones, any parameters; too many clients are refused with a sentence."""
    if clients * least > len(y):
        with pytest.raises(
            InputError, match=f"{clients} clients? cannot hold at least {least} of only {len(y)}"
        ):
            partition(y, said, clients, seed, classes=MOST, min_samples=least)
        return
    part = partition(y, said, clients, seed, classes=MOST, min_samples=least)
    assert np.sort(part.indices).tolist() == list(range(len(y)))
    assert (part.clients, part.record["samples"], part.record["unused"]) == (clients, len(y), 0)
    assert part.sizes.min() >= least
    assert np.array_equal(part.counts, census(y, part.indices, part.offsets, MOST))


@given(labels, expression, st.integers(1, 10), st.floats(0.05, 1), st.integers(0, 5))
@settings(max_examples=150)
def test_what_is_left_out_is_counted(y, said, clients, used, seed) -> None:
    part = partition(y, said, clients, seed, classes=MOST, fraction=used, min_samples=0)
    assert len(np.unique(part.indices)) == len(part.indices) == max(1, round(used * len(y)))
    assert part.record["samples"] + part.record["unused"] == len(y)
    assert np.array_equal(part.counts, census(y, part.indices, part.offsets, MOST))


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 10))
@settings(max_examples=200)
def test_the_vector_of_algorithm_1_ends_on_its_target(length, part, seed) -> None:
    """For every target from 0 to 2 - 2/M, within its bounded number of moves."""
    target = part * (2 - 2 / length)
    p = vector_with_emd(target, length, generator(seed, "test"))
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1)
    assert np.abs(p - 1 / length).sum() == pytest.approx(target, abs=1e-9)


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30), st.integers(0, 500))
@settings(max_examples=150)
def test_shares_are_whole_exact_and_nearest(weights, total) -> None:
    """Each share is the exact one rounded up or down."""
    values = np.array(weights)
    found = shares(total, values, generator(0, "test"))
    exact = total * values / values.sum() if values.sum() > 0 else np.full(len(values), total / len(values))
    assert found.sum() == total
    assert np.all(np.abs(found - exact) < 1 + 1e-6)


def test_thrown_samples_follow_the_weights_and_never_land_where_there_are_none() -> None:
    """100,000 thrown at (1, 0, 3): 25,000 +- 4 x 137, none, the rest."""
    found = throw(100_000, np.array([1.0, 0.0, 3.0]), generator(0, "test"))
    assert found[0] == pytest.approx(25_000, abs=550)
    assert (found[1], found.sum()) == (0, 100_000)


@given(
    st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=20),
    st.integers(0, 6),
)
@settings(max_examples=200)
def test_repair_moves_the_fewest_samples_from_the_largest(rows, least) -> None:
    """Exactly what is missing moves, classes keep their totals, and no giver ends below a client that gave nothing."""
    counts = np.array(rows)
    before = counts.sum(axis=1)
    if before.sum() < least * len(counts):
        return
    after, moves, helped = repair(counts, least, generator(0, "test"))
    sizes = after.sum(axis=1)
    assert moves == np.maximum(least - before, 0).sum()
    assert helped == (before < least).sum()
    assert after.min() >= 0
    assert sizes.min() >= min(least, before.min() + least)
    assert np.array_equal(after.sum(axis=0), counts.sum(axis=0))
    givers = sizes < before
    if givers.any():
        assert sizes[givers].min() >= before[~givers].max(initial=0) - 1


def test_an_empty_client_gets_one_sample_and_the_record_says_how_many_moved() -> None:
    """Six samples of one class go to one client of three at alpha = 1e-6; two move, one to each of the others."""
    part = partition(np.zeros(6, int), "dirichlet(1e-6)", 3)
    assert sorted(part.sizes.tolist()) == [1, 1, 4]
    assert (part.record["moves"], part.record["moved_to"]) == (2, 2)
    assert sorted(partition(np.zeros(6, int), "dirichlet(1e-6)", 3, min_samples=0).sizes.tolist()) == [
        0,
        0,
        6,
    ]


def test_samples_per_client_sets_the_mean_size() -> None:
    part = partition(np.arange(1000) % 10, "iid", 20, samples_per_client=7)
    assert part.sizes.tolist() == [7] * 20
    assert part.record["unused"] == 1000 - 140


GOLDEN = {  # sha256 of the content for 600 labels over 13 clients with seed 7: a change here breaks users' splits
    "iid": "3f9d4ebed2136a285bff8bbc74d094796f19a0a8418af2494d59b9f29ad8a6c6",
    "limit_labels(2, f=0.7)": "8775ae724991bbcf1c6c47adfedd8448883545633a4da3802d656641a993cee0",
    "q(0.6)": "edd51caf32bc1fd8dbf40c157d0e3bb7a65da905bf7c5cefe679019e7509e459",
    "limit_labels_q(2, 0.8)": "c1032bf5aa145905cd1e59973b5790273ab3736b5c8242d2fd9bd57d9c17449a",
    "dirichlet(0.3)": "3c7cd1a6ac7cdaea9f29d429b0937cd05d41d9d176dead7a3438724f9651f6da",
    "dirichlet_client(0.2)": "5d3edaf2d8134fb5d43dc6f941cf3d7cda4b0dde22b1ffc0023e13ba6fe03749",
    "emd(1.1)": "d7177ce7220362711dc2ede0297ca207e748aeed19e06e65c9ab361e03a55764",
    "labels(3)": "23fe853decac3589d295a172069f093e57f142af437fa966acd3436d8f1e2570",
    "shards(2)": "4544c57ccf21a2ed748eba77492e0d87d878f61e9a1661e4bf9f27a536c09b8a",
    "niid_labels(3)": "3cf05eab91b4d71eb912e88275db7cb3e8c4fcaea1128b0d5b485fcb5ef924b1",
    "mixed(labels(1), iid, share=0.8)": "d3c81bb9c5ccfbcad1627a23b58c951af129860b10bcf0e895ad963af3015f2f",
    "quantity(0.5)": "efadf938e400e8b5a05571861e410879585b03842c000229c42587bf54d2924b",
}


def golden_labels() -> np.ndarray:
    """600 labels of 7 unequal classes; no random numbers, so that only the partition is tested."""
    return np.arange(600) ** 2 % 11 % 7


@pytest.mark.parametrize("said", sorted(GOLDEN))
def test_a_seed_fixes_the_partition_on_every_machine(said: str) -> None:
    part = partition(golden_labels(), said, 13, seed=7, fraction=0.9, min_samples=2)
    assert part.record["sha256"] == GOLDEN[said]
    again = partition(golden_labels(), said, 13, seed=7, fraction=0.9, min_samples=2)
    assert again.record == part.record
    other = partition(golden_labels(), said, 13, seed=8, fraction=0.9, min_samples=2)
    assert other.record["sha256"] != part.record["sha256"]


def test_every_family_has_a_golden_partition() -> None:
    assert {said.split("(")[0] for said in GOLDEN} == set(FAMILIES) - {"by"}


def test_the_content_hash_is_of_plain_numbers() -> None:
    """One client, one sample: sha256 of the format's name, then each array's shape and numbers as 64-bit words."""
    part = partition([0], "iid", 1)
    words = [(1,), [0], (2,), [0, 1], (1, 1), [1]]
    digest = hashlib.sha256(b"unskew partition 1")
    for word in words:
        digest.update(np.array(word, "<i8").tobytes())
    assert part.record["sha256"] == digest.hexdigest()

"""What is set aside of clients' samples, and what is left to train on."""

from __future__ import annotations

import numpy as np
import pytest

from unskew import Federation, InputError
from unskew.data.aside import own_tests, split_clients, split_pool
from unskew.testing.toy_federation import tiny


def lists(*clients: list[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, places and offsets of clients that hold samples of these classes."""
    y = np.concatenate([np.array(c, np.int64) for c in clients])
    return y, np.arange(len(y)), np.concatenate([[0], np.cumsum([len(c) for c in clients])])


@pytest.mark.parametrize("seed", range(20))
def test_every_class_of_a_client_gives_its_share(seed):
    """Of 40, 30 and 10 samples a fifth is 16, which are 8, 6 and 2, give or take one."""
    y, indices, offsets = lists([0] * 40 + [1] * 30 + [2] * 10, [1] * 5)
    found = split_clients(y, indices, offsets, 0.2, seed, "test").aside
    assert found.sizes.tolist() == [16, 1]
    assert np.abs(np.bincount(y[found.samples(0)]) - [8, 6, 2]).max() <= 1


@pytest.mark.parametrize(
    ("client", "gives"),
    [([], 0), ([0], 0), ([0, 0], 1), ([0, 1], 1), ([0, 0, 1], 1), ([0, 1, 2, 3], 1), ([0] * 9, 2)],
)
def test_a_client_with_two_samples_spares_one_and_none_its_last(client, gives):
    """Never fewer than one where it has two, also where no class is there twice; nobody gives all."""
    y, indices, offsets = lists(client, [0] * 10)
    found = split_clients(y, indices, offsets, 0.2, 1, "test")
    assert found.aside.sizes[0] == gives
    assert np.diff(found.offsets)[0] == len(client) - gives


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("seed", range(5))
def test_a_class_that_is_there_twice_is_still_trained_on(share, seed):
    """However large the share, a client keeps one sample of each class; none is lost, and none is in both."""
    y, indices, offsets = lists([0] * 7 + [1] * 2 + [2], [3] * 3)
    found = split_clients(y, indices, offsets, share, seed, "test")
    assert set(y[found.indices[: found.offsets[1]]]) == {0, 1, 2}
    assert sorted([*found.indices, *found.aside.indices]) == indices.tolist()


def test_what_is_held_twice_is_never_set_aside():
    """A sample that somebody else, or the client itself again, trains on is no test."""
    y = np.zeros(6, np.int64)
    indices, offsets = np.array([0, 1, 2, 2, 3, 0, 4, 5]), np.array([0, 5, 8])
    for seed in range(10):
        found = split_clients(y, indices, offsets, 0.5, seed, "test")
        assert not set(found.aside.indices) & {0, 2}
        assert not set(found.aside.indices) & set(found.indices)


def test_what_is_drawn_is_a_function_of_the_seed():
    """The same for the same seed, other for another; a test and a validation set are drawn apart."""
    y, indices, offsets = lists([0] * 50, [1] * 50)

    def drawn(seed, purpose="test"):
        return split_clients(y, indices, offsets, 0.2, seed, purpose).aside.indices.tolist()

    assert drawn(0) == drawn(0) != drawn(1)
    assert drawn(0) != drawn(0, "validation")


@pytest.mark.parametrize("seed", range(10))
def test_the_servers_share_is_of_each_class_and_nobody_gives_the_last(seed):
    """A tenth of 100 and of 20 samples is 10 and 2; a class with one sample, and a client with one, keep it."""
    y, indices, offsets = lists([0] * 99, [1] * 20, [2], [0])
    found = split_pool(y, indices, offsets, 0.1, seed)
    assert np.bincount(y[found.aside.indices], minlength=3).tolist() == [10, 2, 0]
    assert np.diff(found.offsets)[2:].tolist() == [1, 1]
    assert found.aside.offsets is None


def test_nothing_to_set_aside_is_refused():
    """Clients of one sample each cannot spare any."""
    federation = tiny(sizes=[1, 1, 1])
    for given in ({"client_test": 0.2}, {"validation": 0.1}, {"validation": 0.1, "validation_of": "client"}):
        with pytest.raises(InputError, match=r"can set no sample aside: nobody holds two samples"):
            federation.set_aside(**given)


def test_sizes_budgets_weights_and_counts_are_of_what_is_left():
    """What was set aside is nowhere in the numbers that training uses."""
    before = tiny(sizes=[10, 20, 0, 5])
    after = before.set_aside(client_test=0.2, validation=0.25, validation_of="client", seed=3)
    assert after.aside["test"].sizes.tolist() == [2, 4, 0, 1]
    assert after.aside["validation"].sizes.tolist() == [2, 4, 0, 1]
    for name in ("sizes", "budget", "weigh"):
        assert getattr(after, name).tolist() == [6, 12, 0, 3]
    assert after.counts.sum(1).tolist() == [6, 12, 0, 3]
    every = [after.indices, *(found.indices for found in after.aside.values())]
    assert sorted(np.concatenate(every)) == sorted(before.indices)


def test_who_brought_test_data_needs_no_share_of_the_rest():
    """Two answers to one question: the setting is refused with what to do instead."""
    federation = Federation.from_clients({"a": (np.eye(10), [0, 1] * 5), "b": (np.eye(10), [0, 1] * 5)})
    with pytest.raises(InputError, match="have test data of their own already; leave client_test out"):
        federation.set_aside(client_test=0.2)


def test_test_rows_belong_to_those_who_are_named():
    """By name, in the clients' order; a row of somebody who does not train is nobody's."""
    found = own_tests(("a", "b"), np.array(["b", "x", "a", "b"]))
    assert found is not None
    assert [found.samples(k).tolist() for k in (0, 1)] == [[2], [0, 3]]
    assert found.in_test
    assert own_tests(("a",), np.array(["x"])) is None

"""Memories as files hold them, and as parts do."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unskew.core.memory import flatten, nest
from unskew.core.store import ClientStore
from unskew.core.types import join, leaves, map_tensors, nbytes, rows, stack

NAMES = st.text(st.sampled_from("ab.:/%2F5|"), min_size=1, max_size=6)
TENSORS = st.builds(torch.tensor, st.integers(0, 9))
MEMORIES = st.dictionaries(
    NAMES, TENSORS | st.dictionaries(NAMES, TENSORS, min_size=1, max_size=3), max_size=4
)


@given(MEMORIES)
def test_every_memory_is_read_as_it_was_written(memory) -> None:
    """Whatever its names are made of, the sign between names included."""
    assert nest(flatten(memory)) == memory


def test_a_path_says_which_tree_a_tensor_is_of() -> None:
    one = torch.ones(1)
    held = {"count": one, "adam": {"first": {"w": one}, "second": {"a/b": one}}, "empty": {}}
    assert list(flatten(held)) == ["count", "adam/first/w", "adam/second/a%2Fb"]


def test_trees_of_clients_are_stacked_taken_and_joined_tree_by_tree() -> None:
    """Two clients' memories, then the second one twice."""
    each = [{"n": torch.tensor(k), "last": {"w": torch.tensor([k, k])}} for k in (1, 2)]
    both = stack(each)
    assert both["last"]["w"].tolist() == [[1, 1], [2, 2]]
    second = rows(both, torch.tensor([1]))
    twice = join([second, second])
    assert (twice["n"].tolist(), twice["last"]["w"].tolist()) == ([2, 2], [[2, 2], [2, 2]])
    assert nbytes(both) == 8 * 6
    assert [v.shape for v in leaves(map_tensors(lambda v: v[0], both))] == [(), (2,)]


@pytest.mark.parametrize("budget", [0, 10**6])
def test_a_client_remembers_trees_in_memory_and_on_disk(budget: int) -> None:
    memory = {"n": torch.tensor([1, 2]), "last": {"w": torch.tensor([[1.0], [2.0]])}}
    store = ClientStore(budget=budget).put("moon", np.array([4, 7]), memory)
    assert store.get("moon", 7, {})["last"]["w"].tolist() == [2.0]
    assert [path for _, _, path, *_ in store.saved()] == ["n", "last/w"]

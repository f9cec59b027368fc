"""Randomness as a function of a seed and words."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from unskew.seeds import generator, key


@given(st.integers(0, 2**64), st.text(max_size=8), st.integers(-5, 5))
def test_a_generator_has_the_numbers_of_its_key(seed: int, word: str, number: int) -> None:
    """Those of numpy's Philox with this key, also once it was sent to another process."""
    wanted = np.random.Generator(np.random.Philox(key=key(seed, word, number)))
    found = generator(seed, word, number)
    assert np.array_equal(found.random(5), wanted.random(5))
    sent = pickle.loads(pickle.dumps(found))
    assert np.array_equal(sent.integers(2**62, size=5), wanted.integers(2**62, size=5))

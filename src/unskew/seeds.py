"""Randomness as a function: the same words give the same stream, on any machine, in any order.

There is no generator state to save and no global generator: whoever needs random numbers names what they are
for, e.g. ``generator(seed, "batches", round, leg, client)``. So a resumed run, another block size or another
finishing order draws the same numbers.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence


def key(seed: int, *words: int | str) -> int:
    """A 128-bit key for this seed and these words."""
    text = "\x1f".join([str(int(seed)), *(str(w) for w in words)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest(), "little")


def generator(seed: int, *words: int | str) -> np.random.Generator:
    """A fresh generator whose numbers depend on the seed and the words alone."""
    return np.random.Generator(np.random.Philox(_Key(key(seed, *words))))  # type: ignore[arg-type]


class _Key(ISeedSequence):
    """A key as numpy takes a seed: given ``key=`` itself, it first asks the system for a seed that nobody uses, which
    takes twice as long as all else."""

    def __init__(self, found: int):
        self.found = found

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Any:
        """The 128 bits of the key, in words of this type."""
        return np.frombuffer(self.found.to_bytes(16, "little"), dtype)[:n_words]


def skip(rng: np.random.Generator, numbers: int) -> None:
    """Leave out so many numbers of a fresh generator's ``random``; it counts, so that takes no longer for many."""
    of_one_count = 4  # Philox makes four numbers at a time
    rng.bit_generator.advance(numbers // of_one_count)  # type: ignore[attr-defined]
    rng.random(numbers % of_one_count)


def borrow_generator(seed: int, *words: int | str) -> np.random.Generator:
    """The numbers of ``generator(seed, *words)`` from one object that every call sets anew: draw before the next call.

    Making a generator takes longer than most draws, and clients times epochs of them are needed for a leg.
    """
    if not hasattr(_lent, "bits"):
        _lent.bits = np.random.Philox(key=0)
        _lent.generator, _lent.fresh = np.random.Generator(_lent.bits), _lent.bits.state
    found = key(seed, *words)
    _lent.fresh["state"]["key"][:] = found & 0xFFFFFFFFFFFFFFFF, found >> 64
    _lent.bits.state = _lent.fresh
    lent: np.random.Generator = _lent.generator
    return lent


_lent = threading.local()
